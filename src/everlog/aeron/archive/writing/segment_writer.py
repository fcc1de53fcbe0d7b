"""Writes the segment file at a recording's end, and creates the next one as soon as it is full.

Each file has a segment's full length from the beginning, with zeros where nothing was written. A crash

* after the creation of a file leaves it full of zeros: the recording ends where it begins;
* in a write leaves a part of the data, which recovery cuts away if it isn't a whole frame;
* between the two halves of ``cut_back`` leaves a short file, which recovery lengthens.

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
    """Writes at a recording's end. ``sync_level``: 0 leaves it to the system when bytes reach the disk; with 1 and 2 a
    file's name is on disk before the file is used, and ``sync`` is called before the next one is made (2: it syncs the
    file's times, too)."""

    def __init__(self, storage: WritableStorage, segments: SegmentMap, sync_level: int) -> None:
        self._storage = storage
        self.segments = segments
        self.sync_level = sync_level
        self._file: WritableFile | None = None
        self._unsynced_base: int | None = None
        """The first full segment that is not on disk yet, at level 0."""
        self._has_new_name = False
        self._window_end = -1
        self._window_bytes = 0
        self.base = 0

    @property
    def end(self) -> int:
        """The position after the open file's last byte, at most the stream's maximum position."""
        return min(self.base + self.segments.segment_length, max_position(self.segments.term_length))

    @property
    def file(self) -> WritableFile:
        """The open file."""
        assert self._file is not None, "a writer is opened before it is used"
        return self._file

    @property
    def fd(self) -> int:
        """The open file's descriptor, for compiled loops; -1 if it has none."""
        fileno = getattr(self._file, "fileno", None)
        return -1 if fileno is None else int(fileno())

    def open(self, position: int) -> None:
        """Open or create the file that holds ``position``, and zero everything after the position in it. Raises
        :class:`WriteFailed`, and :class:`StoreExists` if a file with frames is in a new segment's place."""
        base = self.segments.base(position)
        name, offset = self.segments.name(base), position - base
        is_new = not self._storage.exists(name)
        if is_new and offset and position != self.segments.start_position:
            message = f"{name} is missing: it holds position {position}, where writing continues"
            raise WriteFailed(name, found="no file", expected="the segment that is written next", message=message)
        file = self._storage.open_writable(name, create=is_new, exclusive=is_new, mode=0o644)
        try:
            if not is_new and not offset and _has_bytes(file, 0):
                hint = "everlog verify shows which recording they belong to"
                message = f"{name} exists and has frames in it"
                raise StoreExists(
                    name, found="a file with frames", expected="no file, or zeros", hint=hint, message=message
                )
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
            return  # a file of zeros does no harm, and is used when writing continues

    def write(self, position: int, data: Any) -> None:
        """Write bytes that do not reach over the file's end. Raises :class:`WriteFailed`; a part may be written."""
        self.file.write_at(position - self.base, data)

    def window(self, position: int) -> tuple[mmap.mmap, int] | None:
        """Map a part of the open file that holds ``position``; return the memory and the position of its first byte, or
        ``None`` if the file can't be mapped. Consecutive windows grow: a recording reserves at most as many bytes as it
        has recorded through windows, or ``FIRST_WINDOW_BYTES``."""
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
        """Create and open the next file, after a full one. Raises :class:`WriteFailed`; then the full one stays
        open."""
        full, base = self.file, self.base
        self.open(self.end)
        full.close()
        if not self.sync_level and self._unsynced_base is None:
            self._unsynced_base = base

    def cut_back(self, position: int) -> None:
        """Zero everything from ``position`` to the file's end; needs no disk space. Raises :class:`WriteFailed`."""
        self.file.truncate(position - self.base)
        self.file.truncate(self.segments.segment_length)

    def sync(self) -> None:
        """Return when all that was written is on disk. Raises :class:`WriteFailed`."""
        while self._unsynced_base is not None:
            self._sync_full(self.segments.name(self._unsynced_base))
            following = self._unsynced_base + self.segments.segment_length
            self._unsynced_base = following if following < self.base else None
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
            return  # it was purged
        with file:
            file.sync()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _has_bytes(file: WritableFile, offset: int) -> bool:
    """Whether anything but zeros is in a file from ``offset`` on."""
    size = file.size()
    return first_nonzero(file, offset, size) < size
