"""An open subscriber, shared by the loop and the asyncio interface: its position, what is consumed, what was read.

| state of a message | meaning |
| --- | --- |
| read | in memory, not given yet; lost with the process, and read again by the next one |
| given | passed to the caller |
| done | consumed: the caller said so, or, with ``checkpoint_every``, requested the next one |
| checkpointed | done, and recorded in the checkpoint: not given again |
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import length_hint
from typing import TYPE_CHECKING

from everlog.core.batch import Batch
from everlog.core.columns import pick
from everlog.core.forking import OpenObjects
from everlog.core.options import check_type
from everlog.core.report import Fault
from everlog.errors import Closed, SubscriberExists, UnknownSubscriber, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.message import COLUMNS as MESSAGE_COLUMNS
from everlog.jlog.format.message import Message, messages_of
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.options import StartPlace
from everlog.jlog.reading.journal import COLUMNS
from everlog.jlog.subscribing.checkpointing import Checkpointer
from everlog.jlog.subscribing.cursor import Cursor, Request
from everlog.jlog.subscribing.sessions import begin_session, end_session, is_session
from everlog.jlog.subscribing.subscriptions import BEGINNING, END, add_subscriber, as_address
from everlog.jlog.writing.checkpoint_file import CheckpointFile, subscriber_name
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of

if TYPE_CHECKING:
    from everlog.jlog.monitoring.lag import Lag

READ_AHEAD_ROWS = 4096
READ_AHEAD_BYTES = 1 << 20
"""Bounds of one read-ahead of a message loop."""
MAX_ROWS = 1 << 20
MAX_BYTES = 1 << 30
"""Upper bounds of a batch, whatever is requested; a single message may be larger."""
Place = Message | str | int
"""A message, or an address as number or text."""
_log = logging.getLogger("everlog.jlog")


def log_fault(fault: Fault) -> None:
    """Default for damage: log a warning."""
    _log.warning("%s", fault)


class Subscription:
    """Arguments and errors are those of :class:`everlog.jlog.subscribing.subscriber.Subscriber`. Any thread may call
    the methods; one reads at a time."""

    def __init__(
        self,
        journal: JournalPath,
        name: str | bytes,
        *,
        create: StartPlace | None,
        checkpoint_every: int | None,
        sync: bool,
        on_fault: Callable[[Fault], None] | None,
    ) -> None:
        if create not in (None, BEGINNING, END):
            raise UsageError("create", found=repr(create), expected="'beginning', 'end' or None")
        if checkpoint_every is not None:
            check_type("checkpoint_every", checkpoint_every, int, "an integer or None")
        if checkpoint_every is not None and checkpoint_every < 1:
            raise UsageError("checkpoint_every", found=str(checkpoint_every), expected="at least 1, or None")
        self.storage = storage_of(journal)
        self.subscriber = subscriber_name(name)
        self.every = checkpoint_every
        self.closing = threading.Event()
        self.is_closed = False
        self._sync = sync
        self._on_fault = on_fault or log_fault
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._is_forked = False
        # In a forked child: the checkpoint when it reopened the files.
        self._reopened_at = Address(0)
        # Messages read but not given yet; and whether a batch was read but not marked as given.
        self._pending: list[Message] = []
        self.waiting: Iterator[Message] = iter(self._pending)
        self._is_ahead = False
        self._messages = Request(pick(COLUMNS, MESSAGE_COLUMNS), READ_AHEAD_ROWS, READ_AHEAD_BYTES)
        self._request = self._messages
        self._open_files(create)
        # The last message given (or the start), and the last one done. Those in between are with the caller.
        self.last: Message | Address = self._checkpointer.address
        self.done: Message | Address = self.last
        self.done_count = 0
        self._last_count = 1
        _open.add(self)

    # Files

    def _open_files(self, create: StartPlace | None) -> None:
        self._metastore = MetastoreFile(self.storage)
        try:
            file, address = self._open_checkpoint(create)
            self._checkpointer = Checkpointer(self.storage, self._metastore, file, address, sync=self._sync)
        except BaseException:
            self._metastore.close()
            raise
        self._cursor = Cursor(
            self.storage, self._metastore, self._on_fault, self._checkpointer.cross, self._begin_at_end
        )
        self._cursor.seek(address)

    def _open_checkpoint(self, create: StartPlace | None) -> tuple[CheckpointFile, Address]:
        if is_session(self.subscriber) and os.getpid() == self._owner:
            return begin_session(self.storage, self._metastore, self.subscriber, create)
        try:
            file = CheckpointFile(self.storage, self.subscriber)
        except UnknownSubscriber:
            if create is None:
                raise
            with suppress(SubscriberExists):  # another process has just added it
                add_subscriber(self.storage, self.subscriber, at=create)
            file = CheckpointFile(self.storage, self.subscriber)
        try:
            return file, file.read()
        except BaseException:
            file.close()
            raise

    def check_open(self) -> None:
        """Raises :class:`Closed` after :meth:`close`. In a forked child, reopens the files."""
        if self.is_closed:
            raise Closed("subscriber")
        if self._is_forked:  # checked without the lock: an event loop checks while a thread reads
            with self._lock:
                if self._is_forked:
                    before = self._checkpointer
                    self._open_files(None)
                    self._checkpointer.remember(before)
                    self._reopened_at = self._checkpointer.address
                    self._is_forked = False
                    self._is_ahead = True  # the cursor is at the checkpoint

    def leave_to_parent(self) -> None:
        """In a forked child: replace the locks, which another thread may have held, and close the files, whose locks
        the parent shares."""
        was_closing = self.closing.is_set()
        self._lock, self.closing = threading.RLock(), threading.Event()
        if was_closing:
            self.closing.set()
        self._close_files()
        self._is_forked = True

    def _close_files(self) -> None:
        self._cursor.close()
        self._checkpointer.file.close()
        self._metastore.close()

    def close(self, *, is_clean: bool) -> None:
        """Close the files. ``is_clean`` writes the checkpoint for what is done. A second call does nothing."""
        self.closing.set()
        with self._lock:
            if self.is_closed:
                return
            try:
                if is_clean and not self._is_forked:
                    self.write_done()
                    self._checkpointer.remove_consumed()
            finally:
                self.is_closed = True
                self._pending.clear()  # ends the loop that gives them
                try:
                    if is_session(self.subscriber) and os.getpid() == self._owner:
                        end_session(self.storage, self._metastore, self._checkpointer.file)
                finally:
                    self._close_files()

    # Reading

    def read_messages(self) -> bool:
        """Read messages into ``waiting``. False if none is available now, or it is closed."""
        with self._lock:
            if self.is_closed:
                return False
            self.check_open()
            if length_hint(self.waiting):  # left by a cancelled read
                return True
            batch = self._read(self._messages)
            self._is_ahead = False
            if batch is None:
                return False
            self._pending = messages_of(batch)
            self.waiting = iter(self._pending)
            return True

    def read_ahead(self, max_rows: int, max_bytes: int, columns: Sequence[str] | None) -> Batch | None:
        """Read a batch. :meth:`mark_given` marks its messages as given; otherwise they are read again."""
        with self._lock:
            self.check_open()
            wanted = pick(COLUMNS, columns)
            if max_rows < 1 or max_bytes < 1:
                raise UsageError("max_rows and max_bytes", found=f"{max_rows} and {max_bytes}", expected="at least 1")
            rows, size = min(max_rows, MAX_ROWS), min(max_bytes, MAX_BYTES)
            if (wanted, rows, size) != (self._request.columns, self._request.max_rows, self._request.max_bytes):
                self._request = Request(wanted, rows, size)
            if self.finish_given():
                self.write_done()
            if length_hint(self.waiting):
                self._pending.clear()
                self._is_ahead = True
            return self._read(self._request)

    def mark_given(self, batch: Batch | None) -> None:
        """Mark the batch that was read as given."""
        self._is_ahead = False
        if batch is not None:
            self.last, self._last_count = self._cursor.given, batch.row_count

    def _read(self, request: Request) -> Batch | None:
        if self._is_ahead:
            place = self.position
            if self._reopened_at.log > place.log:  # that segment was consumed and may be gone
                place = self._reopened_at
            self._cursor.rewind(place)
        self._is_ahead = True
        batch = self._cursor.read(request)
        if batch is None:
            self._is_ahead = False
            self.write_done()
            self._checkpointer.remove_consumed()
        return batch

    def _begin_at_end(self, address: Address) -> None:
        """The start position is above the segment's last message: messages were lost, as in a power cut."""
        self._checkpointer.rewind_to_end(address, self._on_fault)
        self.last = self.done = address
        self.done_count = 0

    # Places

    @property
    def position(self) -> Address:
        """Address of the last message given."""
        last = self.last
        return last.address if isinstance(last, Message) else last

    def seek(self, place: Place) -> None:
        """Continue after a place."""
        with self._lock:
            self.check_open()
            address = _address_of(place)
            self.write_done()
            self._pending.clear()
            self._is_ahead = False
            self._reopened_at = Address(0)
            self._cursor.seek(address)
            self.last = self.done = address

    def checkpoint(self, place: Place | None) -> None:
        """Write the checkpoint: ``place`` and all before it are done; ``None`` means the last message given."""
        with self._lock:
            self.check_open()
            address = self.position if place is None else _address_of(place)
            self._checkpointer.write(address)
            if address == self.position:
                self.done, self.done_count = self.last, 0

    def lag(self) -> Lag:
        """The backlog after the last message given."""
        from everlog.jlog.format.checkpoints import Checkpoint
        from everlog.jlog.monitoring.lag import measure_lags
        from everlog.jlog.reading.journal import Journal

        self.check_open()
        place, subscriber = self.position, self.subscriber
        here = Checkpoint(subscriber, checkpoint_name(subscriber), 8, place.log, place.marker)
        return measure_lags(Journal.read(self.storage), [here], time.time_ns())[0]

    def finish_given(self) -> bool:
        """The next message is requested, so the given ones are done. Returns whether :meth:`write_done` is due."""
        if self.done is not self.last:
            self.done = self.last
            self.done_count += self._last_count
            self._last_count = 1
        return self.every is not None and self.done_count >= self.every

    def write_done(self) -> None:
        """With ``checkpoint_every``: write the checkpoint for what is done, unless closing has already done so."""
        with self._lock:
            if self.every is not None and self.done_count and not self.is_closed:
                self.check_open()
                done = self.done
                self._checkpointer.write(done.address if isinstance(done, Message) else done)
                self.done_count = 0


def _address_of(place: Place) -> Address:
    return place.address if isinstance(place, Message) else as_address(place)


def _leave_to_parent(subscription: Subscription) -> None:
    if not subscription.is_closed:
        subscription.leave_to_parent()


_open = OpenObjects(_leave_to_parent)
