"""Reports the progress of Spark jobs while they run."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Self

from everlog.core.report import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_BETWEEN = 0.2


class TaskProgress:
    """Watches the jobs of this thread: ``progress(what, done, total)`` is called with counts of tasks from another
    thread. Without ``progress`` nothing is reported. If the block is left by an error, running jobs are cancelled."""

    def __init__(self, spark: SparkSession, what: str, progress: Progress | None) -> None:
        self._context = spark.sparkContext
        self._what = what
        self._progress = progress
        self._group = f"everlog-{uuid.uuid4()}"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="everlog-progress", daemon=True)

    def __enter__(self) -> Self:
        self._context.setJobGroup(self._group, self._what)
        if self._progress is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        if error is not None:
            self._context.cancelJobGroup(self._group)
        for name in ("spark.jobGroup.id", "spark.job.description"):
            self._context.setLocalProperty(name, None)

    def _watch(self) -> None:
        while not self._done.wait(SECONDS_BETWEEN):
            done, total = self.tasks()
            assert self._progress is not None
            self._progress(self._what, done, total)

    def tasks(self) -> tuple[int, int]:
        """The number of finished tasks, and of all tasks whose stage has begun."""
        tracker = self._context.statusTracker()
        done = total = 0
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                state = tracker.getStageInfo(stage)
                if state is not None:
                    done += state.numCompletedTasks
                    total += state.numTasks
        return done, total
