from everlog.kernel.derived_twin import crc32_of_values as crc32_of_values
from everlog.kernel.derived_twin import decimal_text as decimal_text
from everlog.kernel.derived_twin import floor_divide as floor_divide
from everlog.kernel.derived_twin import hex_pair_text as hex_pair_text
from everlog.kernel.derived_twin import multiply as multiply
from everlog.kernel.derived_twin import named_text as named_text
from everlog.kernel.derived_twin import repeated_text as repeated_text
