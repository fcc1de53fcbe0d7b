"""Read a slice's small files once. A store of many channels has one slice of a few records in most of them, and each
is surveyed and then walked."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.files.storage import BytesFile, ReadableFile
from everlog.nats_streaming.reading.slices import SliceState

SMALL_FILE_BYTES = 16 << 10
"""Files up to this size are read whole: that costs no more than a small read."""


def held(file: ReadableFile) -> ReadableFile:
    """Read a small file whole; give a larger one back. The caller closes ``file``."""
    size = file.size()
    return file if size > SMALL_FILE_BYTES else BytesFile(file.name, file.read_at(0, size))


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A slice's state, and those of its files that are small enough to have been read whole."""

    state: SliceState
    dat: BytesFile | None
    idx: BytesFile | None
