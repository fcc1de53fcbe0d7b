"""A subscriber's checkpoint while it is open: written, moved on with a finished segment, and what becomes free then."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from everlog.core.files.writable import WritableStorage, locked
from everlog.core.report import Fault
from everlog.errors import EverlogError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.faults import fault
from everlog.jlog.format.names import CHECKPOINT_PREFIX
from everlog.jlog.subscribing.removal import remove_locked
from everlog.jlog.writing.checkpoint_file import CheckpointFile
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile

NAMES_A_CROSSING = 256
CHECKPOINT_WEIGHT = 16
"""To find out what may be removed, all names are listed and all checkpoints read (one costs as much as 16 names). It is
done at every crossing into a newer segment as long as that is little, else at every so many."""
_log = logging.getLogger("everlog.jlog")


class Checkpointer:
    """The checkpoint of one subscriber. ``address``: as written last. With ``sync`` it is on disk when written, as
    always in a journal with safety ``safe``.

    When all of a finished segment is done, the checkpoint becomes (next segment, 0), as the C library has it, so that
    the segment can go. A crash leaves the old checkpoint or the new one; and what is to be removed to the next
    crossing, of any subscriber.
    """

    def __init__(
        self, storage: WritableStorage, metastore: MetastoreFile, file: CheckpointFile, address: Address, *, sync: bool
    ) -> None:
        self.address = address
        self.file = file
        self._storage = storage
        self._metastore = metastore
        self._sync = sync
        # In the order in which reading went on; one that reading went back before may stay for longer.
        self._ends: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._crossings = 0
        self._crossings_enough = 1

    def write(self, address: Address) -> None:
        """Set the checkpoint, forwards or backwards. Raises :class:`WriteFailed`."""
        while address.log in self._ends:
            last, following = self._ends[address.log]
            if address.marker < last:
                break
            address = Address.of(following, 0)
        if address.log < self.address.log:
            with locked(self._metastore.file):  # what is there behind it is not removed meanwhile
                self.file.write(address, sync=self._is_synced())
        else:
            self.file.write(address, sync=self._is_synced())
        self._moved(address)

    def cross(self, done: Address, log: int) -> None:
        """Reading went on from a finished segment, of which ``done`` was the last message, to segment ``log``."""
        self._ends[done.log] = (done.marker, log)
        if self.address.log == done.log and self.address >= done:
            following = Address.of(log, 0)
            if self.file.move_on(done, following, sync=self._is_synced()):
                self._moved(following)

    def remember(self, before: Checkpointer) -> None:
        """Take over which segments reading went on from: a message that is the last of one is not to set the checkpoint
        back into it, for it may be gone."""
        self._ends.update(before._ends)

    def go_back(self, end: Address, on_fault: Callable[[Fault], None]) -> None:
        """The segment ends at ``end``: a checkpoint above that says that messages were lost. It is set to the end, as
        the C library does, so that those which take the lost ones' numbers are not passed over."""
        if self.address.log != end.log or self.address <= end:
            return
        on_fault(
            fault(
                "checkpoint-past-end",
                self.file.file.name,
                None,
                f"message {self.address}",
                f"at most {end}, the last there is",
                loses="messages that were written under the numbers of lost ones before now, if there are any",
                repair="none: the checkpoint is set to the last message there is",
                address=str(self.address),
            )
        )
        self.write(end)

    def remove_consumed(self) -> None:
        """Remove what became free and was not looked for yet. What goes wrong is logged: it is no fault of reading."""
        if not self._crossings:
            return
        self._crossings = 0
        try:
            with self._metastore.locked() as values:
                names = self._storage.names()
                remove_locked(self._storage, names, values.storage_log)
        except EverlogError as error:
            _log.warning("%s: finished segments could not be removed: %s", self._storage.root, error)
            return
        checkpoints = sum(1 for name in names if name.startswith(CHECKPOINT_PREFIX))
        self._crossings_enough = 1 + (len(names) + CHECKPOINT_WEIGHT * checkpoints) // NAMES_A_CROSSING

    def _moved(self, address: Address) -> None:
        is_newer = address.log > self.address.log
        self.address = address
        if is_newer:
            # The end that led here stays: the last message before it may be said to be done once more.
            while self._ends and next(iter(self._ends.values()))[1] < address.log:
                self._ends.popitem(last=False)
            self._crossings += 1
            if self._crossings >= self._crossings_enough:
                self.remove_consumed()

    def _is_synced(self) -> bool:
        return self._sync or self._metastore.read().safety == SAFE
