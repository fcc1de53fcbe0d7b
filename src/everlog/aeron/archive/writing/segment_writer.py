"""The segment file at a recording's end, which is written; with the next one made as soon as it is full.

Each file is as long as a segment from the beginning, zeros where nothing was written. A crash

* behind the making of a file leaves it full of zeros: the recording ends where it begins;
* in a write leaves a part of what was to be written, which recovery cuts away if it is no whole frame;
* between the two halves of ``cut_back`` leaves a file that is too short, which recovery lengthens.

Source: RecordingWriter.
"""

from __future__ import annotations

import mmap
from typing import Any

from everlog.aeron.archive.format.segments import SegmentMap
from everlog.aeron.frames.position import max_position
from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.core.files.zeros import first_nonzero
from everlog.errors import StoreExists, WriteFailed

FIRST_WINDOW_BYTES = 64 << 10
MAX_WINDOW_BYTES = 4 << 20


class SegmentWriter:
    """Writes at a recording's end. ``sync_level``: 0 leaves to the system when bytes reach the disk; with 1 and 2 a
    file's name is on disk before the file is used, and ``sync`` is called before the next one is made (2: it syncs the
    file's times, too)."""

    def __init__(self, storage: WritableStorage, segments: SegmentMap, sync_level: int) -> None:
        self._storage = storage
        self.segments = segments
        self.sync_level = sync_level
        self._file: WritableFile | None = None
        self._full: list[str] = []
        self._has_new_name = False
        self._window_end = -1
        self._window_bytes = 0
        self.base = 0

    @property
    def end(self) -> int:
        """The position behind the open file's last byte, or the stream's last one."""
        return min(self.base + self.segments.segment_length, max_position(self.segments.term_length))

    @property
    def file(self) -> WritableFile:
        """The open file."""
        assert self._file is not None, "a writer is opened before it is used"
        return self._file

    @property
    def fd(self) -> int:
        """The open file's descriptor, for compiled loops; -1 where there is none."""
        fileno = getattr(self._file, "fileno", None)
        return -1 if fileno is None else int(fileno())

    def open(self, position: int) -> None:
        """Open the file in which writing goes on at ``position``, or make it; what is behind the position in it becomes
        zeros. Raises :class:`WriteFailed`, :class:`StoreExists` where a new file's place is taken by frames."""
        base = self.segments.base(position)
        name, offset = self.segments.name(base), position - base
        is_new = not self._storage.exists(name)
        if is_new and offset and position != self.segments.start_position:
            raise WriteFailed(name, found="no file", expected=f"the segment that holds position {position}")
        file = self._storage.open_writable(name, create=is_new, exclusive=is_new, mode=0o644)
        try:
            if not is_new and not offset and _has_bytes(file, 0):
                hint = "everlog verify tells whose it is"
                raise StoreExists(name, found="a file with frames in it", expected="none, or zeros", hint=hint)
            length = self.segments.segment_length
            if is_new:
                file.truncate(length)
            elif file.size() != length or _has_bytes(file, offset):
                file.truncate(offset)
                file.truncate(length)
            if self.sync_level:
                file.sync(times=self.sync_level > 1)
                self._storage.sync_folder()
        except BaseException:
            file.close()
            if is_new:
                self._forget(name)
            raise
        self._has_new_name = self._has_new_name or (is_new and not self.sync_level)
        self.base, self._file = base, file

    def _forget(self, name: str) -> None:
        try:
            self._storage.remove(name)
        except WriteFailed:
            return  # zeros do no harm, and are used when writing goes on

    def write(self, position: int, data: Any) -> None:
        """Write bytes, which must not reach over the file's end. Raises :class:`WriteFailed`; a part may be there."""
        self.file.write_at(position - self.base, data)

    def window(self, position: int) -> tuple[mmap.mmap, int] | None:
        """A part of the open file as memory, in which ``position`` is, and the position of its first byte; ``None``
        where there can't be one. Who stores there in order, up to its end, gets larger ones: what a recording has
        reserved is at most as much as was recorded by windows, or ``FIRST_WINDOW_BYTES``."""
        open_window = getattr(self._file, "window", None)
        if open_window is None:
            return None
        offset = position - self.base
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        is_next = abs(self._window_end - position) <= 2 * FIRST_WINDOW_BYTES
        wanted = max(min(2 * self._window_bytes, MAX_WINDOW_BYTES) if is_next else 0, FIRST_WINDOW_BYTES)
        length = min(wanted, self.segments.segment_length - start)
        window = open_window(start, length)
        if window is None:
            return None
        self._window_bytes, self._window_end = wanted, self.base + start + length
        return window, self.base + start

    def roll(self) -> None:
        """The open file is full: make and open the next one. Raises :class:`WriteFailed`; then the full one stays
        open."""
        full, name = self.file, self.segments.name(self.base)
        self.open(self.end)
        full.close()
        if not self.sync_level:
            self._full.append(name)

    def cut_back(self, position: int) -> None:
        """Make zeros of everything from ``position`` to the file's end; that needs no space on the disk. Raises
        :class:`WriteFailed`."""
        self.file.truncate(position - self.base)
        self.file.truncate(self.segments.segment_length)

    def sync(self) -> None:
        """Return when all that was written is on disk. Raises :class:`WriteFailed`."""
        while self._full:  # at level 0 nobody has synced them
            self._sync_full(self._full[0])
            del self._full[0]
        self.file.sync(times=self.sync_level > 1)
        if self._has_new_name:
            self._storage.sync_folder()
            self._has_new_name = False

    def _sync_full(self, name: str) -> None:
        try:
            file = self._storage.open_writable(name)
        except WriteFailed:
            if self._storage.exists(name):
                raise
            return  # purged meanwhile
        with file:
            file.sync()

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _has_bytes(file: WritableFile, offset: int) -> bool:
    """Whether anything but zeros is in a file from ``offset`` on."""
    size = file.size()
    return first_nonzero(file, offset, size) < size
