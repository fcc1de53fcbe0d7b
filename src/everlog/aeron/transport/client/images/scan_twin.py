"""Finds, among many images, those that need a poll: in plain Python, the specification of ``_scan.pyx``, which looks at
each in some nanoseconds and without the GIL."""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, TypeVar

from everlog.aeron.frames.constants import FRAME_ALIGNMENT
from everlog.aeron.transport.client.log_shape import TERM_COUNT, Log, LogShape
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.kernel.memory import Memory
from everlog.kernel.watch import Condition

T = TypeVar("T")
_END_OF_STREAM: Final = LogMetaData.field("end_of_stream_position").offset


class ScannedImage(Protocol):
    """What a scan needs to know of an image."""

    scan: ImageScan[Any] | None
    """The scan that the image tells when it is closed."""

    @property
    def log(self) -> Log | None:
        """The mapped log; ``None`` for an image that is closed, or has none."""

    @property
    def position_at(self) -> tuple[Memory, int] | None:
        """Memory and offset of the subscriber's position; ``None`` without a log."""


class _Entry(Generic[T]):
    counter: Memory
    at: int

    def __init__(self, image: ScannedImage, tag: T) -> None:
        log = image.log
        self.image, self.tag = image, tag
        self.log = log
        self.is_marked = log is None
        if log is not None and image.position_at is not None:
            shape = LogShape.of(log)
            self.term_length, self.shift = shape.term_length, shape.position_bits_to_shift
            self.counter, self.at = image.position_at
            self.counter.get_i64_acquire(self.at)

    def is_due(self, *, notices_ends: bool) -> bool:
        log = self.log
        if self.is_marked or log is None:
            return True
        position = self.counter.get_i64(self.at)
        if position < 0 or position % FRAME_ALIGNMENT:
            return True  # its poll raises the error
        term = log.terms[(position >> self.shift) % TERM_COUNT]
        if term.get_i32_acquire(position & (self.term_length - 1)) > 0:
            return True
        return notices_ends and position >= log.metadata.get_i64_acquire(_END_OF_STREAM)


class ImageScan(Condition, Generic[T]):
    """The images that one thread polls, each with a tag. An image is due if a frame is published at its position; if it
    is closed or has no log (a simulated one); and, with ``notices_ends``, if its stream has ended and all of it is
    read."""

    def __init__(self, *, notices_ends: bool) -> None:
        self._notices_ends = notices_ends
        self._entries: list[_Entry[T]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, image: ScannedImage, tag: T) -> None:
        """Scan an image from now on. Raises ``IndexError`` if its position lies outside its memory."""
        entry = _Entry(image, tag)
        self._entries.append(entry)
        image.scan = self

    def discard(self, image: ScannedImage) -> None:
        """Forget an image; does nothing if it is not known."""
        self._entries = [entry for entry in self._entries if entry.image is not image]

    def mark(self, image: ScannedImage) -> None:
        """Have an image always due: it was closed. Does nothing if it is not known."""
        for entry in self._entries:
            entry.is_marked |= entry.image is image

    def due(self) -> list[T]:
        """Return the tags of the images that are due."""
        notices_ends = self._notices_ends
        return [entry.tag for entry in self._entries if entry.is_due(notices_ends=notices_ends)]

    def is_quiet(self) -> bool:
        """Whether no image is due."""
        notices_ends = self._notices_ends
        return not any(entry.is_due(notices_ends=notices_ends) for entry in self._entries)
