"""A sliding buffer over a byte stream: walkers see whole frames while memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

from everlog.errors import LimitExceeded

CHUNK_BYTES = 512 << 10
MAX_WINDOW_BYTES = 1 << 30
"""Largest frame or message."""

ReadInto = Callable[[int, memoryview], int]
"""``read_into(address, buffer)`` fills ``buffer`` from ``address`` and returns the number of bytes read, fewer than
requested only at the end."""


class Window:
    """``buffer[at:filled]`` are the bytes not consumed yet; ``buffer[0]`` is at ``base`` in the stream.

    A walker consumes whole frames by advancing ``at``; ``refill`` keeps the rest and reads on. If a frame does not fit,
    ``refill`` grows the buffer up to ``max_bytes``.
    """

    __slots__ = ("_chunk_bytes", "_end", "_max_bytes", "_read_into", "at", "base", "buffer", "filled")

    def __init__(
        self,
        read_into: ReadInto,
        start: int,
        end: int,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        max_bytes: int = MAX_WINDOW_BYTES,
    ) -> None:
        self.buffer = bytearray(max(64, min(chunk_bytes, end - start)))
        self.base = start
        self.at = 0
        self.filled = 0
        self._chunk_bytes = len(self.buffer)
        self._end = end
        self._max_bytes = max_bytes
        self._read_into = read_into

    @property
    def address(self) -> int:
        """The position of ``at`` in the stream."""
        return self.base + self.at

    @property
    def at_end(self) -> bool:
        """Whether the stream's last byte is in the buffer or consumed."""
        return self.base + self.filled >= self._end

    def refill(self) -> bool:
        """Keep the unconsumed bytes and read on after them; returns whether any bytes came. Raises
        :class:`LimitExceeded` if one frame would need more than ``max_bytes``."""
        if self.at_end:
            return False
        if self.at:
            rest = self.filled - self.at
            self.buffer[:rest] = self.buffer[self.at : self.filled]
            self.base += self.at
            self.at, self.filled = 0, rest
        elif self.filled == len(self.buffer):
            self._grow()
        room = min(len(self.buffer) - self.filled, self._end - self.base - self.filled)
        with memoryview(self.buffer) as whole, whole[self.filled : self.filled + room] as part:
            count = self._read_into(self.base + self.filled, part)
        self.filled += count
        if count < room:
            self._end = self.base + self.filled  # the stream ends earlier than expected
        return count > 0

    def seek(self, address: int) -> None:
        """Continue at ``address``, inside or outside the buffer. Outside, a grown buffer is released: otherwise each
        piece between holes would cost a read of its size."""
        if self.base <= address <= self.base + self.filled:
            self.at = address - self.base
            return
        self.base, self.at, self.filled = address, 0, 0
        if len(self.buffer) > self._chunk_bytes:
            self.buffer = bytearray(self._chunk_bytes)

    def skip_to(self, address: int, alignment: int = 1) -> None:
        """Continue at ``address``, rounded down to a multiple of ``alignment``, or at the stream's end if that comes
        first. Never moves back."""
        address = min(address // alignment * alignment, self._end)
        if address > self.address:
            self.seek(address)

    def _grow(self) -> None:
        size = len(self.buffer)
        if size >= self._max_bytes:
            raise LimitExceeded(
                "frame", offset=self.base, found=f"over {size} bytes", expected=f"at most {self._max_bytes}"
            )
        self.buffer = self.buffer + bytearray(min(size, self._max_bytes - size))
