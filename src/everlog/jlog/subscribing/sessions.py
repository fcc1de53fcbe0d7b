"""Session subscribers: subscribers whose names start with ``~``.

A session starts at the newest message each time. While it is open its checkpoint file exists, is listed and keeps
segments; closing it removes the file. The process holds the file (``WritableFile.hold``) until it ends, which
distinguishes an open session from one left by a crash. Sessions start, end and are checked under the metastore's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from everlog.core.files.writable import WritableStorage, locked
from everlog.errors import StoreUnavailable, SubscriberExists, UnknownSubscriber, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.names import TRANSIENT_PREFIX, checkpoint_name, printable
from everlog.jlog.options import StartPlace
from everlog.jlog.subscribing.subscriptions import END, MAX_TRIES, add_locked, place_finder
from everlog.jlog.writing.checkpoint_file import CheckpointFile
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile

_log = logging.getLogger("everlog.jlog")


def is_session(name: str) -> bool:
    """Whether the name is that of a session subscriber."""
    return name.startswith(TRANSIENT_PREFIX)


def is_over(storage: WritableStorage, file: str) -> bool | None:
    """Whether no process has a session's checkpoint file open; ``None`` if unknown."""
    try:
        with storage.open_writable(file) as opened:
            if not opened.hold():
                return False
    except StoreUnavailable:
        return None
    is_open = storage.is_open_elsewhere(file)
    return None if is_open is None else not is_open


def begin_session(
    storage: WritableStorage, metastore: MetastoreFile, name: str, create: StartPlace | None
) -> tuple[CheckpointFile, Address]:
    """Add and hold a session subscriber, or take over one left by a crash. Returns its file and start. Raises
    :class:`SubscriberExists` if a process has it open."""
    with metastore.locked() as values:
        find_place = place_finder(storage, values, create or END)
        for _ in range(MAX_TRIES):
            if storage.exists(checkpoint_name(name)):
                begun = _take_over(storage, name, find_place, sync=values.safety == SAFE)
            else:
                address = add_locked(storage, metastore, name, find_place)
                file = _held(storage, name)
                begun = None if file is None else (file, address)
            if begun is not None:
                return begun
    raise UnknownSubscriber(
        storage.root,
        found=f"subscriber {printable(name)!r} was removed each time it was added",
    )


def end_session(storage: WritableStorage, metastore: MetastoreFile, file: CheckpointFile) -> None:
    """Remove a held session subscriber, but not one that was added under its name after somebody removed it."""
    with locked(metastore.file):
        if file.file.is_current():
            storage.remove(file.file.name)


def _take_over(
    storage: WritableStorage, name: str, find_place: Callable[[], Address], *, sync: bool
) -> tuple[CheckpointFile, Address] | None:
    if is_over(storage, checkpoint_name(name)) is False:
        raise SubscriberExists(
            storage.root,
            found=f"session subscriber {printable(name)!r} is already open in a process",
            hint="give each session its own name, such as '~tail-' and the process id",
        )
    file = _held(storage, name)
    if file is None:
        return None
    _log.warning("%s: session subscriber %s was not closed; starting it again", storage.root, printable(name))
    try:
        address = find_place()
        file.write(address, sync=sync)
    except BaseException:
        file.close()
        raise
    return file, address


def _held(storage: WritableStorage, name: str) -> CheckpointFile | None:
    """Open and hold it; ``None`` if it is gone, because removing a subscriber takes no lock."""
    try:
        file = CheckpointFile(storage, name)
    except UnknownSubscriber:
        return None
    except WriteFailed:
        if storage.exists(checkpoint_name(name)):
            raise
        return None
    try:
        file.file.hold()
    except BaseException:
        file.close()
        raise
    return file
