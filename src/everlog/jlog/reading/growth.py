"""Which segments may still grow. A journal grows at its end, with one exception: of two C library writers that finish
segments at the same time, one can skip a number, and the other continues in the segment with that number. Callers that
deliver messages once or in order, or delete them, must wait for that writer."""

from __future__ import annotations

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable
from everlog.jlog.format.metastore import read_metastore
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.segments import Segment

QUIET_S = 60.0
"""A segment that another follows is finished after this long without a write."""
MAX_WRITTEN = 16
"""At most this many of the last segments may still grow."""


def is_finished(storage: Storage, log: int, size: int) -> bool:
    """Whether nobody appends any more to a segment of ``size`` bytes that is followed by another. At the limit nobody
    does; below it a late writer may. An empty next segment may be from a writer that died before it updated the
    metastore."""
    metastore = read_metastore(storage)
    following = segment_name(log + 1)
    if (metastore.storage_log or 0) <= log and storage.exists(following):
        try:
            if not storage.size(following):
                return False
        except StoreUnavailable:
            return False
    if metastore.unit_limit is not None and size >= metastore.unit_limit:
        return True
    # Only asks the system which processes have the file open.
    is_local = isinstance(storage, LocalStorage)
    return not (is_local and LocalWritableStorage(storage.root).may_be_written(segment_name(log), QUIET_S))


def is_locked(storage: Storage, log: int) -> bool:
    """Whether a writer is in the middle of an append and holds the segment's lock. False if unknown."""
    return isinstance(storage, LocalStorage) and LocalWritableStorage(storage.root).is_locked(segment_name(log))


def growing_segments(storage: Storage, segments: list[Segment], least: int = 0) -> list[Segment]:
    """Those of the last segments, except the very last, that may still grow, in order. Segments below ``least`` are
    known to be finished."""
    last = segments[-1 - MAX_WRITTEN : -1]
    return [
        segment
        for segment in last
        if segment.log >= least and not is_finished(storage, segment.log, segment.byte_count)
    ]
