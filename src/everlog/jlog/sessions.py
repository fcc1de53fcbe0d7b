"""Subscribers for a session: their names begin with ``~``.

One begins at the newest message each time. While it is open its checkpoint file is there, is listed and holds
segments; closing removes it. The process that has it open keeps the file held (``WritableFile.hold``), which ends
with the process: so one that a crash left is told from one that is open. Sessions begin and are judged under the
metastore's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from everlog.core.writable import WritableStorage
from everlog.errors import StoreUnavailable, SubscriberExists
from everlog.jlog.addresses import Address
from everlog.jlog.metastore_file import SAFE, MetastoreFile
from everlog.jlog.names import TRANSIENT_PREFIX, checkpoint_name, printable
from everlog.jlog.subscriptions import END, CheckpointFile, add_locked, place_finder

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
        if storage.exists(checkpoint_name(name)):
            return _take_over(storage, name, find_place, sync=values.safety == SAFE)
        address = add_locked(storage, metastore, name, find_place)
        return _held(storage, name), address


def _take_over(
    storage: WritableStorage, name: str, find_place: Callable[[], Address], *, sync: bool
) -> tuple[CheckpointFile, Address]:
    if is_over(storage, checkpoint_name(name)) is False:
        raise SubscriberExists(
            storage.root,
            found=f"subscriber {printable(name)!r}, open in a process",
            expected="a session that is not open",
            hint="choose a name for each session, such as '~tail-' and the process number",
        )
    _log.warning(
        "%s: the session of subscriber %s ended without closing it; it begins anew", storage.root, printable(name)
    )
    file = _held(storage, name)
    address = find_place()
    file.write(address, sync=sync)
    return file, address


def _held(storage: WritableStorage, name: str) -> CheckpointFile:
    file = CheckpointFile(storage, name)
    file.file.hold()
    return file
