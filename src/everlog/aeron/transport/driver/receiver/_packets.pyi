from everlog.aeron.transport.driver.receiver.packets_twin import (
    CONTROL as CONTROL,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    CONTROL_TYPES as CONTROL_TYPES,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    END_OF_STREAM as END_OF_STREAM,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    FLAG_EOS as FLAG_EOS,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    INVALID as INVALID,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    MAX_TIMESTAMP_OFFSET as MAX_TIMESTAMP_OFFSET,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    MAX_TRANSPORTS as MAX_TRANSPORTS,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    MIN_HEADER_LENGTH as MIN_HEADER_LENGTH,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    NEW_CONNECTION as NEW_CONNECTION,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    NEW_SESSION as NEW_SESSION,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    NO_TIME as NO_TIME,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    RESERVED_VALUE_OFFSET as RESERVED_VALUE_OFFSET,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    ImageRebuilder as ImageRebuilder,
)
from everlog.aeron.transport.driver.receiver.packets_twin import (
    ImageSessions as ImageSessions,
)
