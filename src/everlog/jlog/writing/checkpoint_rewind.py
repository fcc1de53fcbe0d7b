"""Checkpoints past the last message there is.

A power cut may take messages that a subscriber was done with, and leave its checkpoint. What is written next gets their
numbers: the subscriber would never see it. So before a writer's first append such checkpoints are set back to the last
message there is, as subscribers, and the C library's, do with their own.
"""

from __future__ import annotations

import logging
from contextlib import closing

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import EverlogError, UnknownSubscriber
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.names import printable
from everlog.jlog.writing.checkpoint_file import CheckpointFile
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.tail import Tail, settle

_log = logging.getLogger("everlog.jlog")


def rewind_checkpoints(
    storage: WritableStorage, metastore: MetastoreFile, log: int, file: WritableFile, framing: Framing, known: Tail
) -> Tail:
    """Set checkpoints that are past the end of segment ``log``, the one that is written, back to its end. ``known`` is
    where the segment is known to go on; where it does.

    A crash in it leaves some of them to the next writer. One that can't be set back is told in the log.
    """
    # Checkpoints first: those of subscribers at work follow the messages, so that only others are behind the end then.
    places = {
        found.subscriber: Address.of(found.log, found.marker)
        for found in read_checkpoints(storage, storage.names())
        if found.log is not None and found.marker is not None
    }
    if not any(place >= Address.of(log, known.marker) for place in places.values()):
        return known
    tail = settle(storage, log, file, framing)
    end = Address.of(log, tail.marker - 1)
    with metastore.locked() as values:  # so that nobody goes on to the next segment, and what is behind `end` stays
        if values.storage_log == log:
            for subscriber, place in places.items():
                if place > end:
                    _try_to_set_back(storage, subscriber, place, end)
    return tail


def _try_to_set_back(storage: WritableStorage, subscriber: str, place: Address, end: Address) -> None:
    try:
        with closing(CheckpointFile(storage, subscriber)) as file:
            if file.read() != place:  # somebody has moved it meanwhile
                return
            file.write(end, sync=True)
    except UnknownSubscriber:  # it has been removed meanwhile
        return
    except EverlogError as error:  # a subscriber of another user must not keep this one from writing
        _log.warning("%s: a checkpoint past the end can't be set back: %s", storage.root, error)
        return
    _log.warning(
        "%s: the checkpoint of subscriber %s was %s; it is set back to %s, the last message there is",
        storage.root,
        printable(subscriber),
        place,
        end,
    )
