"""Resets checkpoints that are past the last message.

A power cut may lose messages that a subscriber has consumed while its checkpoint survives. New messages then reuse
their numbers, and the subscriber would skip them. Before its first append a writer therefore resets such checkpoints to
the last message, as subscribers and the C library do with their own.
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
from everlog.jlog.writing.tail import Tail, recover_tail

_log = logging.getLogger("everlog.jlog")


def rewind_checkpoints(
    storage: WritableStorage, metastore: MetastoreFile, log: int, file: WritableFile, framing: Framing, known: Tail
) -> Tail:
    """Reset checkpoints past the end of ``log``, the current segment, to its end. ``known`` is the known tail of the
    segment; returns its actual tail.

    A crash leaves some of them for the next writer. A checkpoint that can't be reset is logged.
    """
    # Read the checkpoints first: active subscribers follow the messages, so only stale ones can be past the end.
    places = {
        found.subscriber: Address.of(found.log, found.marker)
        for found in read_checkpoints(storage, storage.names())
        if found.log is not None and found.marker is not None
    }
    if not any(place >= Address.of(log, known.marker) for place in places.values()):
        return known
    tail = recover_tail(storage, log, file, framing)
    end = Address.of(log, tail.marker - 1)
    with metastore.locked() as values:  # nobody may move to the next segment until it is done
        if values.storage_log == log:
            for subscriber, place in places.items():
                if place > end:
                    _try_to_set_back(storage, subscriber, place, end)
    return tail


def _try_to_set_back(storage: WritableStorage, subscriber: str, place: Address, end: Address) -> None:
    try:
        with closing(CheckpointFile(storage, subscriber)) as file:
            if file.read() != place:  # moved since it was read
                return
            file.write(end, sync=True)
    except UnknownSubscriber:  # removed since it was listed
        return
    except EverlogError as error:  # another user's subscriber must not stop this writer
        _log.warning("%s: can't reset a checkpoint that is past the last message: %s", storage.root, error)
        return
    _log.warning(
        "%s: reset the checkpoint of subscriber %s from %s to %s, the last message",
        storage.root,
        printable(subscriber),
        place,
        end,
    )
