"""A journal's state at one moment, as far as its health needs it: plain values, judged elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.monitoring.free_space import free_space
from everlog.core.report import Fault
from everlog.errors import EverlogError
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.names import PRE_COMMIT, TRANSIENT_PREFIX, segment_name
from everlog.jlog.format.pre_commit import START
from everlog.jlog.monitoring.lag import Lag, measure_lags
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.time_units import NS_PER_US

LOCKS = "/proc/locks"
"""Linux lists the locks of all processes here."""
FLOCK = "FLOCK"


@dataclass(frozen=True, slots=True)
class SegmentSnapshot:
    """A segment file; ``modified_ns`` is ``None`` if the storage does not know it."""

    log: int
    byte_count: int
    modified_ns: int | None


@dataclass(frozen=True, slots=True)
class SubscriberSnapshot:
    """A subscriber: its checkpoint, when that was last written, and its lag. ``is_held``: whether an open everlog
    subscriber holds the file; ``None`` if unknown."""

    checkpoint: Checkpoint
    lag: Lag
    modified_ns: int | None = None
    is_held: bool | None = None

    @property
    def place(self) -> tuple[int, int] | None:
        """Segment and message number of the checkpoint."""
        if self.checkpoint.log is None or self.checkpoint.marker is None:
            return None
        return self.checkpoint.log, self.checkpoint.marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A journal at ``at_ns``. The pre-commit buffer holds ``buffered_bytes``, the oldest message since
    ``buffered_since_ns``. ``free_bytes`` are available to its owner on the file system; ``None`` if unknown."""

    at_ns: int
    segments: tuple[SegmentSnapshot, ...] = ()
    subscribers: tuple[SubscriberSnapshot, ...] = ()
    storage_log: int | None = None
    safety: int | None = None
    metastore_faults: tuple[Fault, ...] = ()
    buffered_bytes: int = 0
    buffered_since_ns: int | None = None
    free_bytes: int | None = None

    @property
    def last_log(self) -> int | None:
        """The highest existing segment."""
        return self.segments[-1].log if self.segments else None

    @property
    def byte_count(self) -> int:
        """Bytes of all segments."""
        return sum(segment.byte_count for segment in self.segments)


def observe(storage: Storage) -> Observation:
    """Observe a journal without counting messages. Changes nothing. Raises :class:`StoreUnavailable` and
    :class:`UnsupportedVersion`."""
    journal = Journal.read(storage)
    checkpoints = read_checkpoints(storage, storage.names())
    now_ns = time.time_ns()
    return observe_journal(journal, checkpoints, measure_lags(journal, checkpoints, now_ns), now_ns)


def observe_journal(
    journal: Journal, checkpoints: Sequence[Checkpoint], lags: Sequence[Lag], now_ns: int
) -> Observation:
    """Like :func:`observe`, from what was already read."""
    storage = journal.storage
    # A storage without times gives 0.
    times = {entry.name: entry.mtime_ns or None for entry in storage.entries()}
    held = _held_files(storage, [c.file for c in checkpoints if c.subscriber.startswith(TRANSIENT_PREFIX)])
    buffered, space = journal.pre_commit(), free_space(storage)
    return Observation(
        at_ns=now_ns,
        segments=tuple(SegmentSnapshot(s.log, s.byte_count, times.get(segment_name(s.log))) for s in journal.segments),
        subscribers=tuple(
            SubscriberSnapshot(checkpoint, lag, times.get(checkpoint.file), held.get(checkpoint.file))
            for checkpoint, lag in zip(checkpoints, lags, strict=True)
        ),
        storage_log=journal.metastore.storage_log,
        safety=journal.metastore.safety,
        metastore_faults=tuple(journal.metastore.faults),
        buffered_bytes=buffered.readable if buffered is not None else 0,
        buffered_since_ns=_buffered_since(journal) if buffered is not None and buffered.readable else None,
        free_bytes=None if space is None else space.free_bytes,
    )


def _buffered_since(journal: Journal) -> int | None:
    try:
        with journal.storage.open(PRE_COMMIT) as file:
            size = file.size()
            header = SegmentData(file, START, size).header(START, journal.framing_of(file, START, size))
    except EverlogError:
        return None
    return None if header is None else header.timestamp_us * NS_PER_US


def _held_files(storage: Storage, names: Sequence[str]) -> dict[str, bool]:
    """Which files a process holds, from the system's list of locks: trying to lock them would disturb their owners.

    Files are identified by inode only, because some file systems list another device: at worst an abandoned one counts
    as held.
    """
    held: dict[str, bool] = {}
    if not names or not isinstance(storage, LocalStorage):
        return held
    try:
        with open(LOCKS, encoding="ascii", errors="replace") as lines:
            fields = [line.split() for line in lines]
    except OSError:
        return held
    inodes = {f[5].rpartition(":")[2] for f in fields if len(f) > 5 and f[1] == FLOCK}
    for name in names:
        with contextlib.suppress(OSError):
            held[name] = str(os.stat(storage.path(name)).st_ino) in inodes
    return held
