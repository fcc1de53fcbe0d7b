"""What a bulk poll fills: messages as columns. This is the readable twin of ``_message_columns.pyx``."""

from __future__ import annotations

from array import array

from everlog.aeron.transport.client.images.column_batch import batch_of, check_limits
from everlog.core.batch import Batch


class MessageColumns:
    """Up to ``max_rows`` messages and ``max_bytes`` bytes of them, one behind the other; one message alone may be
    longer. Message ``i`` is ``data[offsets[i]:offsets[i + 1]]``. Each bulk poll replaces what was there; buffers of
    which somebody still has a view are left to them. For one thread at a time.

    ``positions`` and ``reserved_values`` say which columns there are besides. Raises :class:`UsageError` for limits out
    of range: 1 to 2^24 rows, 1 byte to 1 GiB.
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
        """Of the image that was polled last."""
        self._has_positions = positions
        self._has_reserved_values = reserved_values
        self._reset()

    def clear(self) -> None:
        """No rows any more; what was looked at stays as it was."""
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
        """How many messages."""
        return len(self._ends) - 1

    @property
    def byte_count(self) -> int:
        """Of all of them."""
        return len(self._data)

    @property
    def data(self) -> memoryview:
        """The messages, one behind the other."""
        return memoryview(bytes(self._data))

    @property
    def offsets(self) -> memoryview:
        """Where each begins, and behind the last where it ends: int32."""
        return memoryview(self._ends)

    @property
    def positions(self) -> memoryview | None:
        """Of the first byte of each message's first frame: int64."""
        return memoryview(self._positions) if self._has_positions else None

    @property
    def reserved_values(self) -> memoryview | None:
        """Of each message's first frame: int64."""
        return memoryview(self._reserved_values) if self._has_reserved_values else None

    def to_list(self) -> list[bytes]:
        """The messages as bytes objects."""
        return [bytes(self._data[a:b]) for a, b in zip(self._ends, self._ends[1:], strict=False)]

    def batch(self) -> Batch:
        """The rows as a batch that Arrow takes without a copy."""
        return batch_of(self)
