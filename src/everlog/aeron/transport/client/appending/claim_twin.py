"""A buffer claim: a range of the log that the publisher writes in place. Source: BufferClaim."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_PADDING
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.results import no_claim, release
from everlog.kernel.memory import Memory
from everlog.layout import Readable

_FLAGS: Final = DataHeader.field("flags").offset
_TYPE: Final = DataHeader.field("type").offset
_RESERVED_VALUE: Final = DataHeader.field("reserved_value").offset


class BufferClaim:
    """A range of the log for one message, written in place. Call :meth:`commit` or :meth:`abort` soon: readers wait at
    an open claim until the driver unblocks it. As a context manager it commits, or aborts on an exception. Any use
    without an open claim raises :class:`UsageError`."""

    def __init__(self) -> None:
        self._term: Memory | None = None
        self._at = 0
        self._length = 0
        self._payload: memoryview | None = None

    def _set(self, term: Memory, at: int, length: int) -> None:
        self._term, self._at, self._length, self._payload = term, at, length, None

    def _frame(self) -> Memory:
        if self._term is None:
            raise no_claim()
        return self._term

    @property
    def is_open(self) -> bool:
        """Whether it is claimed and neither committed nor aborted."""
        return self._term is not None

    @property
    def payload(self) -> memoryview:
        """The memory to write the message to. Don't use it after the commit."""
        term = self._frame()
        if self._payload is None:
            self._payload = term.slice(self._at + HEADER_LENGTH, self._length).view()
        return self._payload

    @property
    def offset(self) -> int:
        """The payload's offset in its term."""
        self._frame()
        return self._at + HEADER_LENGTH

    @property
    def length(self) -> int:
        """The payload's length."""
        self._frame()
        return self._length

    @property
    def flags(self) -> int:
        """The frame's flags; 0xC0 is a whole message."""
        return self._frame().read(self._at + _FLAGS, 1)[0]

    @flags.setter
    def flags(self, value: int) -> None:
        self._frame().write(self._at + _FLAGS, value.to_bytes(1, "little"))

    @property
    def type(self) -> int:
        """The frame's type; 1 is data."""
        return int.from_bytes(self._frame().read(self._at + _TYPE, 2), "little")

    @type.setter
    def type(self, value: int) -> None:
        self._frame().write(self._at + _TYPE, value.to_bytes(2, "little"))

    @property
    def reserved_value(self) -> int:
        """The reserved value, int64, free for the publisher's use."""
        return self._frame().get_i64(self._at + _RESERVED_VALUE)

    @reserved_value.setter
    def reserved_value(self, value: int) -> None:
        self._frame().put_i64(self._at + _RESERVED_VALUE, value)

    def put(self, data: Readable, at: int = 0) -> None:
        """Copy bytes into the payload at offset ``at``. Raises :class:`IndexError` if they don't fit."""
        term = self._frame()
        part = memoryview(data).cast("B")
        if at < 0 or at > self._length - len(part):
            raise IndexError(f"{len(part)} bytes at {at} of a claim of {self._length}")
        term.write(self._at + HEADER_LENGTH + at, part)

    def commit(self) -> None:
        """Publish the message."""
        self._frame().put_i32_release(self._at, self._length + HEADER_LENGTH)
        self._end()

    def abort(self) -> None:
        """Turn the claim into padding, which readers skip."""
        term = self._frame()
        term.write(self._at + _TYPE, TYPE_PADDING.to_bytes(2, "little"))
        term.put_i32_release(self._at, self._length + HEADER_LENGTH)
        self._end()

    def _end(self) -> None:
        payload, self._term, self._payload = self._payload, None, None
        release(payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, _: object, __: TracebackType | None) -> None:
        if self._term is not None:
            if kind is None:
                self.commit()
            else:
                self.abort()
