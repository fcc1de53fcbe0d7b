"""Which segments may still be written. A journal grows at its end, but for one case: of two writers of the C library
that finish segments at the same time, one can skip a number, and the other goes on in the segment with that one. Who
gives messages out once, or in order, or deletes them, has to wait for that writer.
"""

from __future__ import annotations

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable
from everlog.jlog.format.metastore import read_metastore
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.segments import Segment

QUIET_S = 60.0
"""A segment that nobody wrote for so long is finished, once another follows."""
MAX_WRITTEN = 16
"""So many of the last segments may still be written."""


def is_finished(storage: Storage, log: int, size: int) -> bool:
    """Whether nobody appends any more to a segment of ``size`` bytes that is followed by another one. At the limit
    nobody does. Below it a late writer may. An empty segment behind it may be of a writer that died before the
    metastore said so."""
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
    # Asks the system who has the file open; writes nothing.
    is_local = isinstance(storage, LocalStorage)
    return not (is_local and LocalWritableStorage(storage.root).may_be_written(segment_name(log), QUIET_S))


def is_locked(storage: Storage, log: int) -> bool:
    """Whether a writer is in the middle of an append to a segment: it has the lock meanwhile. False where that can't be
    told."""
    return isinstance(storage, LocalStorage) and LocalWritableStorage(storage.root).is_locked(segment_name(log))


def growing_segments(storage: Storage, segments: list[Segment], least: int = 0) -> list[Segment]:
    """Those of the last segments but the very last to which a writer may append, in order; ``least``: those with lower
    numbers are left, as was found before."""
    last = segments[-1 - MAX_WRITTEN : -1]
    return [
        segment
        for segment in last
        if segment.log >= least and not is_finished(storage, segment.log, segment.byte_count)
    ]
