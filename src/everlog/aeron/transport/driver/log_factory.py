"""Creates and deletes the log buffers of publications and images: files in the driver's folder, or private memory in
simulations. Source: FileStoreLogFactory, MappedRawLog, NativeResourceAgent.

A sparse file takes up memory only when it is written, and SIGBUS kills a process that writes a page when no memory is
left. So a log is created only if there is room for it and for all pages that sparse logs of this driver may still
allocate. The blocks of a file that is not sparse are allocated at creation. A crash leaves the files; the next driver
in the folder deletes them all.
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
"""Bytes per block that ``st_blocks`` counts."""


class DriverLog(Protocol):
    """A log buffer of the driver. Clients find it by ``name``."""

    @property
    def memory(self) -> LogMemory: ...
    @property
    def name(self) -> str: ...
    def free(self) -> bool:
        """Delete the log. Returns ``False`` if that failed and must be retried. Clients that have mapped it keep it."""


class LogFactory(Protocol):
    """Creates log buffers with their metadata initialised from ``parameters``. Raises :class:`CommandRefused` with
    ``STORAGE_SPACE`` if there is no room, and :class:`EverlogError` if a file can't be created."""

    def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> DriverLog: ...
    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> DriverLog: ...


def log_length(term_length: int, page_size: int) -> int:
    """The length of a log buffer's file, in bytes."""
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
        """The file's absolute path."""
        return str(self.path)

    def unallocated_length(self) -> int:
        """Bytes of the file that are not yet allocated."""
        try:
            return max(self.length - os.stat(self.path).st_blocks * BLOCK_LENGTH, 0)
        except OSError:
            return 0

    def free(self) -> bool:
        """Delete the file. Its memory is freed when the last process unmaps it. Returns ``False`` if deleting
        failed."""
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
    """Creates logs in the configuration's folder. ``mapped_bytes`` counts the bytes mapped; ``warn`` is called when
    space runs low. The methods run on the tasks' thread."""

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
        """Create a file in ``publications``, named by its correlation id."""
        return self._new(PUBLICATIONS, parameters, is_sparse)

    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> FileLog:
        """Create a file in ``images``, named by its correlation id."""
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
        reserved = sum(log.unallocated_length() for log in list(self._sparse))
        usable = status.f_bavail * status.f_frsize - reserved
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
        """Remove the log from the names that clients can find."""
        self._logs.pop(self.name, None)
        return True


class PrivateLogFactory:
    """Creates logs in private memory. The simulation's clients find them by name in ``logs``."""

    def __init__(self) -> None:
        self.logs: dict[str, LogMemory] = {}

    def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> PrivateLog:
        """Create a log whose name begins with ``publications/``."""
        return self._new(PUBLICATIONS, parameters)

    def new_image(self, parameters: LogParameters, *, is_sparse: bool) -> PrivateLog:
        """Create a log whose name begins with ``images/``."""
        return self._new(IMAGES, parameters)

    def _new(self, kind: str, parameters: LogParameters) -> PrivateLog:
        name = f"{kind}/{parameters.correlation_id}{SUFFIX}"
        self.logs[name] = memory = LogMemory.allocate(parameters)
        return PrivateLog(memory, name, self.logs)


class FreedLogs:
    """Deletes logs that are no longer used, one at a time, as tasks, because freeing many megabytes takes a while.
    Failures are counted and retried."""

    def __init__(self, tasks: Tasks, failures: AtomicCounter) -> None:
        self._tasks = tasks
        self._failures = failures
        self._logs: deque[DriverLog] = deque()
        self._log: DriverLog | None = None
        self._task: Task[bool] | None = None

    def add(self, log: DriverLog) -> None:
        """Queue a log for deletion."""
        self._logs.append(log)

    @property
    def is_busy(self) -> bool:
        """Whether a log is queued or being deleted."""
        return bool(self._logs) or self._task is not None

    def do_work(self) -> int:
        """Check the running deletion and start the next one. Returns the number of logs deleted."""
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
        """Delete all remaining logs. Call it when the driver stops and no task runs any more."""
        if self._log is not None:
            self._logs.append(self._log)
            self._log = self._task = None
        while self._logs:
            self._logs.popleft().free()
