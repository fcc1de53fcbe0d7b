"""The columns that a bulk poll fills with messages. This is the readable twin of ``_message_columns.pyx``."""

from __future__ import annotations

from array import array

from everlog.aeron.transport.client.images.column_batch import batch_of, check_limits
from everlog.core.batch import Batch


class MessageColumns:
    """Up to ``max_rows`` messages with up to ``max_bytes`` bytes, stored contiguously; a single message may be longer.
    Message ``i`` is ``data[offsets[i]:offsets[i + 1]]``. Each bulk poll replaces the contents; buffers with exported
    views are replaced by new ones. For one thread at a time.

    ``positions`` and ``reserved_values`` select additional columns. Raises :class:`UsageError` for limits out of range:
    1 to 2^24 rows, 1 byte to 1 GiB.
    """

    def __init__(
        self,
        max_rows: int = 16384,
        max_bytes: int = 4 << 20,
        *,
        positions: bool = True,
        reserved_values: bool = False,
    ) -> None:
        check_limits(max_rows, max_bytes)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.session_id = 0
        """Session id of the image that was polled last."""
        self._has_positions = positions
        self._has_reserved_values = reserved_values
        self._reset()

    def clear(self) -> None:
        """Remove all rows; exported views keep their contents."""
        self._reset()

    def _reset(self) -> None:
        self._data = bytearray()
        self._ends = array("i", [0])
        self._positions = array("q")
        self._reserved_values = array("q")

    def _add(self, payload: bytes, position: int, reserved_value: int) -> None:
        self._data += payload
        self._ends.append(len(self._data))
        self._positions.append(position)
        self._reserved_values.append(reserved_value)

    def _has_room(self, length: int) -> bool:
        """Whether one more message fits; the first one always does."""
        return not self.row_count or (
            self.row_count < self.max_rows and self.byte_count + length <= max(self.max_bytes, self.byte_count)
        )

    @property
    def row_count(self) -> int:
        """Number of messages."""
        return len(self._ends) - 1

    @property
    def byte_count(self) -> int:
        """Bytes of all messages."""
        return len(self._data)

    @property
    def data(self) -> memoryview:
        """The messages' bytes, contiguous."""
        return memoryview(bytes(self._data))

    @property
    def offsets(self) -> memoryview:
        """Start of each message, then the end of the last: int32."""
        return memoryview(self._ends)

    @property
    def positions(self) -> memoryview | None:
        """Position of the first byte of each message's first frame: int64."""
        return memoryview(self._positions) if self._has_positions else None

    @property
    def reserved_values(self) -> memoryview | None:
        """Reserved value of each message's first frame: int64."""
        return memoryview(self._reserved_values) if self._has_reserved_values else None

    def to_list(self) -> list[bytes]:
        """The messages as bytes objects."""
        return [bytes(self._data[a:b]) for a, b in zip(self._ends, self._ends[1:], strict=False)]

    def batch(self) -> Batch:
        """The rows as a batch that Arrow takes without a copy."""
        return batch_of(self)
