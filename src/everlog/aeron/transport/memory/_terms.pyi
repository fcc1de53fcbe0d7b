from everlog.aeron.transport.memory.terms_twin import (
    INSERTED as INSERTED,
)
from everlog.aeron.transport.memory.terms_twin import (
    INVALID as INVALID,
)
from everlog.aeron.transport.memory.terms_twin import (
    NO_ACTION as NO_ACTION,
)
from everlog.aeron.transport.memory.terms_twin import (
    PRESENT as PRESENT,
)
from everlog.aeron.transport.memory.terms_twin import (
    TERM_COUNT as TERM_COUNT,
)
from everlog.aeron.transport.memory.terms_twin import (
    UNBLOCKED as UNBLOCKED,
)
from everlog.aeron.transport.memory.terms_twin import (
    UNBLOCKED_TO_END as UNBLOCKED_TO_END,
)
from everlog.aeron.transport.memory.terms_twin import (
    clean as clean,
)
from everlog.aeron.transport.memory.terms_twin import (
    insert as insert,
)
from everlog.aeron.transport.memory.terms_twin import (
    producer_position as producer_position,
)
from everlog.aeron.transport.memory.terms_twin import (
    rotate_log as rotate_log,
)
from everlog.aeron.transport.memory.terms_twin import (
    scan_block as scan_block,
)
from everlog.aeron.transport.memory.terms_twin import (
    scan_datagrams as scan_datagrams,
)
from everlog.aeron.transport.memory.terms_twin import (
    scan_for_availability as scan_for_availability,
)
from everlog.aeron.transport.memory.terms_twin import (
    scan_for_gap as scan_for_gap,
)
from everlog.aeron.transport.memory.terms_twin import (
    try_fill_gap as try_fill_gap,
)
from everlog.aeron.transport.memory.terms_twin import (
    unblock as unblock,
)
from everlog.aeron.transport.memory.terms_twin import (
    unblock_term as unblock_term,
)
