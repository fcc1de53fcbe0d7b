"""Computes columns from other columns: compiled, or the twin :mod:`everlog.kernel.derived_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load
from everlog.kernel.derived_twin import AS_CHARACTER as AS_CHARACTER
from everlog.kernel.derived_twin import AS_NULL as AS_NULL
from everlog.kernel.derived_twin import AS_NUMBER as AS_NUMBER
from everlog.kernel.derived_twin import AS_UNSIGNED as AS_UNSIGNED

if TYPE_CHECKING:
    from everlog.kernel.derived_twin import crc32_of_values as crc32_of_values
    from everlog.kernel.derived_twin import decimal_text as decimal_text
    from everlog.kernel.derived_twin import floor_divide as floor_divide
    from everlog.kernel.derived_twin import hex_pair_text as hex_pair_text
    from everlog.kernel.derived_twin import multiply as multiply
    from everlog.kernel.derived_twin import named_text as named_text
    from everlog.kernel.derived_twin import repeated_text as repeated_text
else:
    _module = load("everlog.kernel._derived", "everlog.kernel.derived_twin")
    crc32_of_values = _module.crc32_of_values
    decimal_text = _module.decimal_text
    floor_divide = _module.floor_divide
    hex_pair_text = _module.hex_pair_text
    multiply = _module.multiply
    named_text = _module.named_text
    repeated_text = _module.repeated_text
