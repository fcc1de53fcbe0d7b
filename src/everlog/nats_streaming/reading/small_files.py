"""Reads a slice's small files only once. In a store of many channels, most have one slice of a few records, and each
slice is surveyed and then walked."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.files.storage import BytesFile, ReadableFile
from everlog.nats_streaming.reading.slices import SliceState

SMALL_FILE_BYTES = 16 << 10
"""Files up to this size are read whole, which costs no more than a small read."""


def read_if_small(file: ReadableFile) -> ReadableFile:
    """Read a small file whole; return a larger one unchanged. The caller closes ``file``."""
    size = file.size()
    return file if size > SMALL_FILE_BYTES else BytesFile(file.name, file.read_at(0, size))


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A slice's state, and those of its files that were small enough to read whole."""

    state: SliceState
    dat: BytesFile | None
    idx: BytesFile | None
