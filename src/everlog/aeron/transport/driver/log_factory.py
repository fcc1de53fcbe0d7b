"""Log buffers of publications and images: files in the driver's folder, or private memory for the simulation. Source:
FileStoreLogFactory, MappedRawLog, NativeResourceAgent.

A sparse file takes up memory only as it is written, and who writes a page for which there is none left is killed by
SIGBUS. So before a log is made there must be room for it and for all pages that sparse logs of this driver may still
ask for. A file that is not sparse has its blocks from the start. A crash leaves the files; the next driver of the
folder deletes them all.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from everlog.aeron.frames.constants import align
from everlog.aeron.java_exception import JavaException
from everlog.aeron.transport.driver.commands.command_errors import AERON, no_space
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.log_buffers import IMAGES, METADATA_LENGTH, PUBLICATIONS, SUFFIX, TERM_COUNT
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.runtime.tasks import Task, Tasks

BLOCK_LENGTH = 512
"""Of what ``st_blocks`` counts."""


class DriverLog(Protocol):
    """A log buffer that the driver made. ``name`` is where clients find it."""

    @property
    def memory(self) -> LogMemory: ...
    @property
    def name(self) -> str: ...
    def free(self) -> bool:
        """Delete it, ``False`` where that is to be tried again. Who has it mapped keeps it."""


class LogFactory(Protocol):
    """Makes log buffers, initialised as ``parameters`` say. Raises :class:`CommandRefused` with ``STORAGE_SPACE`` where
    there is no room, :class:`EverlogError`."""

    def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> DriverLog: ...
    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> DriverLog: ...


def log_length(term_length: int, page_size: int) -> int:
    """Bytes of a log buffer's file."""
    return align(TERM_COUNT * term_length + METADATA_LENGTH, page_size)


class FileLog:
    """A log buffer in a file."""

    def __init__(self, memory: LogMemory, path: Path, length: int, on_free: Callable[[FileLog], None]) -> None:
        self.memory = memory
        self.path = path
        self.length = length
        self._on_free: Callable[[FileLog], None] | None = on_free

    @property
    def name(self) -> str:
        """Its absolute path."""
        return str(self.path)

    def unallocated_length(self) -> int:
        """Bytes that the file may still ask for."""
        try:
            return max(self.length - os.stat(self.path).st_blocks * BLOCK_LENGTH, 0)
        except OSError:
            return 0

    def free(self) -> bool:
        """Delete the file. Its memory goes with the last who has it."""
        if self._on_free is not None:
            self._on_free(self)
            self._on_free = None
            self.memory.close()
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            return False
        return True


class FileLogFactory:
    """In the configuration's folder. ``mapped_bytes`` counts what is mapped; ``warn`` is told when space runs low. Logs
    are made and freed by a thread of tasks."""

    def __init__(self, configuration: Configuration, mapped_bytes: AtomicCounter, warn: Callable[[str], None]) -> None:
        self._folder = Path(configuration.dir).absolute()
        self._page_size = configuration.file_page_size
        self._is_checking = configuration.perform_storage_checks
        self._threshold = configuration.low_storage_warning_threshold
        self._mapped_bytes = mapped_bytes
        self._warn = warn
        self._sparse: set[FileLog] = set()
        for name in (PUBLICATIONS, IMAGES):
            (self._folder / name).mkdir(exist_ok=True)

    def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> FileLog:
        """In ``publications``, named by its correlation id."""
        return self._new(PUBLICATIONS, parameters, is_sparse)

    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> FileLog:
        """In ``images``, named by its correlation id."""
        return self._new(IMAGES, parameters, is_sparse)

    def _new(self, kind: str, parameters: LogParameters, is_sparse: bool) -> FileLog:
        length = log_length(parameters.term_length, self._page_size)
        if self._is_checking:
            self._check_storage(length)
        path = self._folder / kind / f"{parameters.correlation_id}{SUFFIX}"
        memory = LogMemory.create(path, parameters, page_size=self._page_size, sparse=is_sparse)
        log = FileLog(memory, path, length, self._on_free)
        self._mapped_bytes.add(length)
        if is_sparse:
            self._sparse.add(log)
        return log

    def _check_storage(self, length: int) -> None:
        status = os.statvfs(self._folder)
        promised = sum(log.unallocated_length() for log in list(self._sparse))
        usable = status.f_bavail * status.f_frsize - promised
        if usable < length:
            text = f"insufficient usable storage for new log of length={length} usable={usable} in {self._folder}"
            raise no_space(text)
        if usable <= self._threshold:
            text = f"WARN - space is running low: threshold={self._threshold} usable={usable} in {self._folder}"
            self._warn(str(JavaException(AERON, text)))

    def _on_free(self, log: FileLog) -> None:
        self._sparse.discard(log)
        self._mapped_bytes.add(-log.length)


class PrivateLog:
    """A log buffer in private memory."""

    def __init__(self, memory: LogMemory, name: str, logs: dict[str, LogMemory]) -> None:
        self.memory = memory
        self.name = name
        self._logs = logs

    def free(self) -> bool:
        """Nobody finds it any more."""
        self._logs.pop(self.name, None)
        return True


class PrivateLogFactory:
    """Logs in private memory, which the simulation's clients find by their names in ``logs``."""

    def __init__(self) -> None:
        self.logs: dict[str, LogMemory] = {}

    def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> PrivateLog:
        """As in ``publications``."""
        return self._new(PUBLICATIONS, parameters)

    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> PrivateLog:
        """As in ``images``."""
        return self._new(IMAGES, parameters)

    def _new(self, kind: str, parameters: LogParameters) -> PrivateLog:
        name = f"{kind}/{parameters.correlation_id}{SUFFIX}"
        self.logs[name] = memory = LogMemory.allocate(parameters)
        return PrivateLog(memory, name, self.logs)


class FreedLogs:
    """Logs at their end, deleted one after the other by ``tasks``: to give many megabytes back takes a while. What
    fails is counted and tried again."""

    def __init__(self, tasks: Tasks, failures: AtomicCounter) -> None:
        self._tasks = tasks
        self._failures = failures
        self._logs: deque[DriverLog] = deque()
        self._log: DriverLog | None = None
        self._task: Task[bool] | None = None

    def add(self, log: DriverLog) -> None:
        """It is used no more."""
        self._logs.append(log)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to delete, or to see."""
        return bool(self._logs) or self._task is not None

    def do_work(self) -> int:
        """See what was deleted, and go on; how many were."""
        count = 0
        if self._task is not None and self._task.done():
            if self._task.result():
                count = 1
            elif self._log is not None:
                self._failures.increment_release()
                self._logs.append(self._log)
            self._log = self._task = None
        if self._task is None and self._logs:
            self._log = self._logs.popleft()
            self._task = self._tasks.submit(self._log.free)
        return count

    def free_all(self) -> None:
        """Delete all: the driver ends, and no task runs any more."""
        if self._log is not None:
            self._logs.append(self._log)
            self._log = self._task = None
        while self._logs:
            self._logs.popleft().free()
