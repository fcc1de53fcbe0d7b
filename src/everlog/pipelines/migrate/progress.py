"""Progress of tasks, reported through a folder on the driver's machine: a small file for each move. Tasks on other
machines can't see it and report nothing until they end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from everlog.core.report import Progress

SECONDS_BETWEEN = 0.2
_last: dict[int, float] = {}


class ProgressFolder:
    """A folder for the duration of the ``with`` block; none if no one watches."""

    def __init__(self, wanted: bool) -> None:
        self.path: str | None = tempfile.mkdtemp(prefix="everlog-progress-") if wanted else None

    def total(self) -> int:
        """The sum of the counts that all moves have reported."""
        found = 0
        for name in os.listdir(self.path) if self.path else ():
            with contextlib.suppress(OSError, ValueError), open(os.path.join(self.path or "", name)) as file:
                found += int(file.read() or 0)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)


def report_count(folder: str | None, number: int, count: int) -> None:
    """Report a task's count; calls that come too often are ignored. Nothing depends on it: write errors are ignored,
    too."""
    now = time.monotonic()
    if folder is None or now - _last.get(number, 0.0) < SECONDS_BETWEEN:
        return
    _last[number] = now
    with contextlib.suppress(OSError), open(os.path.join(folder, str(number)), "w") as file:
        file.write(str(count))


@contextlib.contextmanager
def watch(folder: ProgressFolder, progress: Progress | None, what: str, total: int) -> Iterator[None]:
    """Call ``progress(what, done, total)`` regularly from a thread while the block runs."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def report() -> None:
        while not over.wait(SECONDS_BETWEEN):
            progress(what, min(folder.total(), total), total)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
