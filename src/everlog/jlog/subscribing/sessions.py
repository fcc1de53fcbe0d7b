"""Subscribers for a session: their names begin with ``~``.

One begins at the newest message each time. While it is open its checkpoint file is there, is listed and holds
segments; closing removes it. The process that has it open keeps the file held (``WritableFile.hold``), which ends
with the process: so one that a crash left is told from one that is open. Sessions begin, end and are judged under the
metastore's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from everlog.core.files.writable import WritableStorage, locked
from everlog.errors import StoreUnavailable, SubscriberExists, UnknownSubscriber, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.names import TRANSIENT_PREFIX, checkpoint_name, printable
from everlog.jlog.subscribing.subscriptions import END, MAX_LOOKS, add_locked, place_finder
from everlog.jlog.writing.checkpoint_file import CheckpointFile
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile

_log = logging.getLogger("everlog.jlog")


def is_session(name: str) -> bool:
    """Whether a subscriber is there for a session, by its name."""
    return name.startswith(TRANSIENT_PREFIX)


def is_over(storage: WritableStorage, file: str) -> bool | None:
    """Whether no process has a session's checkpoint file open; ``None`` where that can't be told."""
    try:
        with storage.open_writable(file) as opened:
            if not opened.hold():
                return False
    except StoreUnavailable:
        return None
    is_open = storage.is_open_elsewhere(file)
    return None if is_open is None else not is_open


def begin_session(
    storage: WritableStorage, metastore: MetastoreFile, name: str, create: str | None
) -> tuple[CheckpointFile, Address]:
    """Add a session's subscriber and hold it, or take over what a crash left of one; where it begins. Raises
    :class:`SubscriberExists` for one that a process has open."""
    with metastore.locked() as values:
        find_place = place_finder(storage, values, create or END)
        for _ in range(MAX_LOOKS):
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
        found=f"subscriber {printable(name)!r} removed each time that it was added",
        expected="a session that nobody removes while it begins",
    )


def end_session(storage: WritableStorage, metastore: MetastoreFile, file: CheckpointFile) -> None:
    """Remove a session's subscriber, while it is held: but not one that was added under its name after somebody else
    had removed it."""
    with locked(metastore.file):
        if file.file.is_current():
            storage.remove(file.file.name)


def _take_over(
    storage: WritableStorage, name: str, find_place: Callable[[], Address], *, sync: bool
) -> tuple[CheckpointFile, Address] | None:
    if is_over(storage, checkpoint_name(name)) is False:
        raise SubscriberExists(
            storage.root,
            found=f"subscriber {printable(name)!r}, open in a process",
            expected="a session that is not open",
            hint="choose a name for each session, such as '~tail-' and the process number",
        )
    file = _held(storage, name)
    if file is None:
        return None
    _log.warning(
        "%s: the session of subscriber %s ended without closing it; it begins anew", storage.root, printable(name)
    )
    try:
        address = find_place()
        file.write(address, sync=sync)
    except BaseException:
        file.close()
        raise
    return file, address


def _held(storage: WritableStorage, name: str) -> CheckpointFile | None:
    """``None`` where it is gone: who removes a subscriber takes no lock for it."""
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
