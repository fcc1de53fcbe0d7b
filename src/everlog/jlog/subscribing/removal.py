"""Removing segments that every subscriber is done with.

A segment goes when each checkpoint is in a higher one; without a subscriber none goes. The segment that is written
now stays, and so does what a flush of the buffer that is not finished may have written. A checkpoint that can't be
read, or is far above the segment that is written, holds everything: where its subscriber really is, nobody knows.
All is done under the metastore's lock, which adding a subscriber and moving a checkpoint back take too. Processes of
the C library take no lock for it, and may delete the same files meanwhile.

The index goes before its data: a crash between leaves a segment without an index, which is none the worse.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import closing

from everlog.core.files.storage import Storage
from everlog.core.files.writable import DRAFT_PREFIX, WritableStorage
from everlog.errors import EverlogError
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.names import (
    CHECKPOINT_PREFIX,
    index_name,
    parse_checkpoint_name,
    parse_index_name,
    parse_segment_name,
    printable,
    segment_name,
)
from everlog.jlog.format.pre_commit import read_flush_note
from everlog.jlog.subscribing.sessions import is_over, is_session
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of

DRAFT_AGE_S = 600
"""A draft is there for the moment in which a file is made; older ones were left by a crash."""
_log = logging.getLogger("everlog.jlog")
_told: set[tuple[str, str]] = set()


def remove_consumed(journal: JournalPath, below: int | None = None) -> list[int]:
    """Delete the segments that every subscriber is done with, and none from ``below`` on; the numbers of those deleted.

    A crash in it leaves the ones not yet reached, to the next call. Raises :class:`WriteFailed`, :class:`NotAStore`,
    :class:`CorruptData`.
    """
    storage = storage_of(journal)
    with closing(MetastoreFile(storage)) as metastore, metastore.locked() as values:
        return remove_locked(storage, storage.names(), values.storage_log, below)


def clean(journal: JournalPath) -> list[int]:
    """:func:`remove_consumed`, and delete what crashes leave behind: subscribers of sessions that are over, indexes
    without a segment, drafts of files. Raises as it does."""
    storage = storage_of(journal)
    with closing(MetastoreFile(storage)) as metastore, metastore.locked() as values:
        names = storage.names()
        removed = remove_locked(storage, names, values.storage_log)
        for name in names:
            subscriber = parse_checkpoint_name(name)
            if subscriber is not None and is_session(subscriber) and is_over(storage, name):
                storage.remove(name)
        logs = {log for log in map(parse_segment_name, names) if log is not None}
        for log in map(parse_index_name, names):
            if log is not None and log < values.storage_log and log not in logs:
                storage.remove(index_name(log))
        _remove_drafts(storage)
        return removed


def remove_locked(storage: WritableStorage, names: list[str], written: int, below: int | None = None) -> list[int]:
    """:func:`remove_consumed`, under the metastore's lock: of the ``names`` in the folder, below segment ``written``,
    the one that is written now."""
    lowest = _lowest_checkpoint(storage, names, written)
    if lowest is None:
        return []
    limit = written if below is None else min(written, below)
    logs = sorted(log for log in map(parse_segment_name, names) if log is not None and log < min(lowest, limit))
    # What a flush may have written stays until it is known whether it has: else it would be written again.
    note = read_flush_note(storage) if logs else None
    removed = []
    for log in logs:
        if note is not None and log >= note.log:
            break
        storage.remove(index_name(log))
        if storage.remove(segment_name(log)):
            removed.append(log)
    return removed


def _lowest_checkpoint(storage: WritableStorage, names: Iterable[str], written: int) -> int | None:
    """The segment that the first subscriber is in; ``None`` where nothing may be deleted."""
    sessions: list[tuple[int, str]] = []
    lowest: int | None = None
    for name in names:
        if not name.startswith(CHECKPOINT_PREFIX):
            continue
        log = _log_of(storage, name)
        if log is None and not storage.exists(name):
            continue  # removed since it was listed
        if log is None or log > written + 1:  # the next one: all is done, and it is not there yet
            return None
        subscriber = parse_checkpoint_name(name)
        if subscriber is not None and is_session(subscriber):
            sessions.append((log, name))
        elif lowest is None or log < lowest:
            lowest = log
    for log, name in sorted(sessions):
        if lowest is not None and log >= lowest:
            break
        if not is_over(storage, name):
            return log
        if (storage.root, name) not in _told:
            _told.add((storage.root, name))
            _log.warning(
                "%s: the session of subscriber %s ended without closing it; its checkpoint, in segment %08x, holds "
                "nothing (clean deletes it)",
                storage.root,
                printable(parse_checkpoint_name(name) or name),
                log,
            )
    return lowest


def _log_of(storage: Storage, name: str) -> int | None:
    """The segment of a checkpoint, ``None`` where it does not say. Without its lock: one of the file's two numbers is
    needed, of which a reader sees the old or the new; and nobody who hangs may stop everybody here."""
    try:
        with storage.open(name) as file:
            data = file.read_at(0, JlogCheckpoint.size)
    except EverlogError:
        return None
    return JlogCheckpoint.unpack_from(data).log if len(data) == JlogCheckpoint.size else None


def _remove_drafts(storage: WritableStorage) -> None:
    oldest_ns = time.time_ns() - DRAFT_AGE_S * 1_000_000_000
    for entry in storage.entries():
        is_old = entry.name.startswith(DRAFT_PREFIX) and entry.is_file and entry.mtime_ns < oldest_ns
        if is_old and storage.is_open_elsewhere(entry.name) is False:
            storage.remove(entry.name)
