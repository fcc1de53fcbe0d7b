"""The segment that a writer appends to: opened when needed, replaced when full, synced for all threads at once."""

from __future__ import annotations

import logging
import os

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.core.group_commit import GroupCommit, Round
from everlog.errors import Closed, EverlogError
from everlog.jlog.format.framing import Framing
from everlog.jlog.writing.append import ENDED, FULL, MOVED, Appender, appender
from everlog.jlog.writing.checkpoint_rewind import rewind_checkpoints
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.tail import Tail, known_tail, recover_tail

_log = logging.getLogger("everlog.jlog")


class CurrentSegment:
    """Opens the journal's last segment and moves on to the next one. Callers hold the writer's lock, except for
    :meth:`wait`.

    ``is_synced``: appends wait for a sync. ``is_direct``: appends need nothing but the appender (no encoding, buffer or
    sync), so that ``direct`` may be used without the lock.
    """

    def __init__(
        self, storage: WritableStorage, metastore: MetastoreFile, framing: Framing, *, is_synced: bool, is_direct: bool
    ) -> None:
        self.appender: Appender | None = None
        """The appender, if the segment is open. :meth:`open` opens it."""
        self.direct: Appender | None = None
        """The same, if ``is_direct``."""
        self.file: WritableFile | None = None
        self.is_closed = False
        self.pid = os.getpid()
        self.failed_sync: EverlogError | None = None
        """The first failed sync that no append waited for."""
        self._storage = storage
        self._metastore = metastore
        self._framing = framing
        self._is_synced = is_synced
        self._is_direct = is_direct
        self._commit = GroupCommit()
        self._has_rewound = False  # checkpoints that are past the end

    def check_open(self) -> None:
        """Raises :class:`Closed`. After a fork, reopens the files in the child."""
        if self.is_closed:
            raise Closed("writer")
        if self.pid != os.getpid():
            self._metastore = MetastoreFile(self._storage)
            self._commit = GroupCommit()
            self.pid = os.getpid()

    def open(self) -> Appender:
        """The appender on the current segment, opened if needed."""
        self.check_open()
        if self.appender is None:
            if not self._has_rewound:
                self._metastore.catch_up()
            log, self.file = self._metastore.open_segment(sync=self._is_synced)
            tail = known_tail(self._storage, log, self.file, self._framing)
            if not self._has_rewound:
                tail = rewind_checkpoints(self._storage, self._metastore, log, self.file, self._framing, tail)
                self._has_rewound = True
            self._begin(log, self.file, tail)
        assert self.appender is not None
        return self.appender

    def at_end(self) -> Appender:
        """The appender, advanced past everything that others have written so far."""
        while True:
            current = self.open()
            status, _, _ = current.append_many([], 0)
            if status <= ENDED:
                return current
            self.prepare_retry(status)

    def _begin(self, log: int, file: WritableFile, tail: Tail) -> None:
        self.appender = appender(file, self._metastore.file, log, self._framing.magic, tail.end, tail.marker)
        if self._is_direct:
            self.direct = self.appender

    def prepare_retry(self, status: int) -> None:
        """After an append that wrote nothing: make the next attempt possible."""
        current = self.open()
        self._retire()
        if status == FULL:
            self._roll()
        elif status == MOVED:
            self.settle()
            self._leave()
        else:
            assert self.file is not None
            tail = recover_tail(self._storage, current.log, self.file, self._framing)
            self._begin(current.log, self.file, tail)

    def end(self) -> None:
        """Move on after an append that filled the segment. The message is stored, so the next append retries whatever
        fails here, except a sync that a caller waits for."""
        try:
            self._roll()
        except EverlogError as error:
            if self._is_synced:
                raise
            _log.warning("%s: can't start the next segment yet: %s", self._storage.root, error)

    def end_if_full(self) -> None:
        """:meth:`end`, if the segment is full."""
        if self.appender is not None and self.appender.end >= self.appender.limit:
            self.end()

    def _roll(self) -> None:
        """Sync the segment and move to the next one."""
        current = self.open()
        self.settle()
        self._metastore.advance(current.log, sync=self._is_synced)
        self._leave()

    def _retire(self) -> None:
        """Keep other threads out of the appender before its file is used otherwise or closed."""
        self.direct = None
        if self.appender is not None:
            self.appender.retire()

    def _leave(self) -> None:
        self.direct = None
        # Not closed here, because a thread may be syncing it. It closes with its last reference.
        self.file = None
        self.appender = None

    # Durability

    def join(self) -> Round | None:
        """The sync to wait for after an append, or ``None`` if appends don't wait."""
        return self._commit.join() if self._is_synced else None

    def wait(self, joined: Round | None) -> None:
        """Wait for that sync, without the lock. Raises :class:`WriteFailed`."""
        if joined is not None:
            self._commit.wait(joined, self._sync)

    def settle(self) -> None:
        """Sync everything written to the segment. Raises :class:`WriteFailed`."""
        self._commit.settle(self._sync)

    def settle_if_synced(self) -> None:
        """Call :meth:`settle` if the durability is ``synced``."""
        if self._is_synced:
            self.settle()

    def sync_names(self) -> None:
        """Sync the names of the journal's files."""
        self._metastore.sync_names()

    def _sync(self) -> None:
        file = self.file
        try:
            if file is not None:
                file.sync()
        except EverlogError as error:
            if not self._is_synced:  # else the callers that wait get the error
                self.failed_sync = self.failed_sync or error
            raise

    # The end

    def close(self) -> None:
        """Close the files for good."""
        self.is_closed = True
        self._retire()
        self.close_files()

    def close_files(self) -> None:
        """Close the files; the next append opens them again."""
        if self.file is not None:
            self.file.close()
        self._metastore.close()
        self._leave()
