"""Removes segments that every subscriber has consumed.

A segment is removed if every checkpoint is in a later one; without subscribers none is. The current segment stays, and
so does any segment that an unfinished flush may have written to. A checkpoint that is unreadable, or far above the
current segment, blocks removal, because its subscriber's real position is unknown. Everything happens under the
metastore's lock, which adding a subscriber and moving a checkpoint back also take. C library processes take no lock and
may delete the same files.

The index is deleted before its segment: a crash in between leaves a segment without an index, which is harmless.
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
"""A draft exists only while a file is created; older ones were left by a crash."""
_log = logging.getLogger("everlog.jlog")
_warned: set[tuple[str, str]] = set()


def remove_consumed(journal: JournalPath, below: int | None = None) -> list[int]:
    """Delete the segments that every subscriber has consumed, but none from ``below`` on. Returns their numbers.

    A crash leaves the rest for the next call. Raises :class:`WriteFailed`, :class:`NotAStore` and :class:`CorruptData`.
    """
    storage = storage_of(journal)
    with closing(MetastoreFile(storage)) as metastore, metastore.locked() as values:
        return remove_locked(storage, storage.names(), values.storage_log, below)


def clean(journal: JournalPath) -> list[int]:
    """Like :func:`remove_consumed`, and delete leftovers of crashes: session subscribers whose process ended, indexes
    without a segment, and drafts of files. Raises the same errors."""
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
    """Like :func:`remove_consumed`, under the metastore's lock. ``names`` lists the folder; ``written`` is the current
    segment."""
    lowest = _lowest_checkpoint(storage, names, written)
    if lowest is None:
        return []
    limit = written if below is None else min(written, below)
    logs = sorted(log for log in map(parse_segment_name, names) if log is not None and log < min(lowest, limit))
    # Keep what a flush may have written, so that the next writer can find it and does not write it again.
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
    """The segment of the slowest subscriber; ``None`` if nothing may be deleted."""
    sessions: list[tuple[int, str]] = []
    lowest: int | None = None
    for name in names:
        if not name.startswith(CHECKPOINT_PREFIX):
            continue
        log = _log_of(storage, name)
        if log is None and not storage.exists(name):
            continue  # removed since it was listed
        if log is None or log > written + 1:  # written + 1: all is consumed, and that segment does not exist yet
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
        if (storage.root, name) not in _warned:
            _warned.add((storage.root, name))
            _log.warning(
                "%s: session subscriber %s was not closed; its checkpoint in segment %08x keeps no segments "
                "(clean deletes it)",
                storage.root,
                printable(parse_checkpoint_name(name) or name),
                log,
            )
    return lowest


def _log_of(storage: Storage, name: str) -> int | None:
    """The segment of a checkpoint, ``None`` if unreadable. Takes no lock: only one of the file's two numbers is needed,
    which is read as old or new, and a hanging process must not block removal."""
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
