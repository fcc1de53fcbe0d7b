"""The checkpoint of an open subscriber: writes it, moves it past finished segments, and removes segments that this
frees."""

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

NAMES_PER_CROSSING = 256
CHECKPOINT_WEIGHT = 16
"""Finding removable segments lists all names and reads all checkpoints (one costs as much as 16 names). It happens at
every move into a newer segment while that is cheap, else at every few moves."""
_log = logging.getLogger("everlog.jlog")


class Checkpointer:
    """The checkpoint of one subscriber. ``address`` is the value last written. With ``sync`` it is on disk when
    written, as always in a journal with safety ``safe``.

    Once a finished segment is consumed, the checkpoint becomes (next segment, 0), as in the C library, so that the
    segment can be removed. A crash leaves the old or the new checkpoint, and removal to the next such move of any
    subscriber.
    """

    def __init__(
        self, storage: WritableStorage, metastore: MetastoreFile, file: CheckpointFile, address: Address, *, sync: bool
    ) -> None:
        self.address = address
        self.file = file
        self._storage = storage
        self._metastore = metastore
        self._sync = sync
        # In reading order. An entry may stay longer after reading moved back.
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
            with locked(self._metastore.file):  # keeps segments after it from being removed
                self.file.write(address, sync=self._is_synced())
        else:
            self.file.write(address, sync=self._is_synced())
        self._moved(address)

    def cross(self, done: Address, log: int) -> None:
        """Record that reading moved from a finished segment, whose last message was ``done``, to segment ``log``."""
        self._ends[done.log] = (done.marker, log)
        if self.address.log == done.log and self.address >= done:
            following = Address.of(log, 0)
            if self.file.move_on(done, following, sync=self._is_synced()):
                self._moved(following)

    def remember(self, before: Checkpointer) -> None:
        """Copy which segments reading has left: their last message must not move the checkpoint back into a segment
        that may be removed."""
        self._ends.update(before._ends)

    def rewind_to_end(self, end: Address, on_fault: Callable[[Fault], None]) -> None:
        """The segment ends at ``end``. A higher checkpoint means that messages were lost. It is reset to the end, as
        the C library does, so that new messages with the lost ones' numbers are not skipped."""
        if self.address.log != end.log or self.address <= end:
            return
        on_fault(
            fault(
                "checkpoint-past-end",
                self.file.file.name,
                None,
                f"message {self.address}",
                f"at most {end}, the last message",
                loses="messages already written under the numbers of lost ones, if any",
                repair="none: the checkpoint is reset to the last message",
                address=str(self.address),
            )
        )
        self.write(end)

    def remove_consumed(self) -> None:
        """Remove segments freed since the last check. Errors are logged, because they are not errors of reading."""
        if not self._crossings:
            return
        self._crossings = 0
        try:
            with self._metastore.locked() as values:
                names = self._storage.names()
                remove_locked(self._storage, names, values.storage_log)
        except EverlogError as error:
            _log.warning("%s: consumed segments could not be removed: %s", self._storage.root, error)
            return
        checkpoints = sum(1 for name in names if name.startswith(CHECKPOINT_PREFIX))
        self._crossings_enough = 1 + (len(names) + CHECKPOINT_WEIGHT * checkpoints) // NAMES_PER_CROSSING

    def _moved(self, address: Address) -> None:
        is_newer = address.log > self.address.log
        self.address = address
        if is_newer:
            # Keep the entry that led here: its last message may be checkpointed again.
            while self._ends and next(iter(self._ends.values()))[1] < address.log:
                self._ends.popitem(last=False)
            self._crossings += 1
            if self._crossings >= self._crossings_enough:
                self.remove_consumed()

    def _is_synced(self) -> bool:
        return self._sync or self._metastore.read().safety == SAFE
