"""What a task of an export, or of statistics, goes on behind, and what ends it."""

from __future__ import annotations

import errno
import os

import pytest

from everlog.core.store import Level
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, FileChanged, StoreUnavailable, UnknownStream, WriteFailed
from everlog.pipelines.export.task import _passed_over
from everlog.pipelines.follow import tracking
from everlog.pipelines.scan.options import parse_options
from everlog.pipelines.stats import scan as stats_scan
from everlog.pipelines.stats.scan import Folding, FoldTask, run_fold_task

LENIENT = parse_options({"path": "/x", "failOnDataLoss": "false"})
STRICT = parse_options({"path": "/x"})


def failed(kind: type[EverlogError], code: int) -> EverlogError:
    error = kind("/x/segment", found=os.strerror(code).lower(), expected="a readable file")
    error.__cause__ = OSError(code, os.strerror(code))
    return error


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.EACCES, errno.ECONNRESET])
def test_what_can_not_be_read_now_is_no_loss_to_go_on_behind(code: int) -> None:
    assert _passed_over(LENIENT, failed(StoreUnavailable, code)) is None


def test_what_has_gone_is_passed_over_where_the_options_say_so() -> None:
    gone = failed(StoreUnavailable, errno.ENOENT), FileChanged("/x/1"), UnknownStream("/x")
    assert all(_passed_over(STRICT, error) is None for error in gone)
    assert [_passed_over(LENIENT, error) for error in gone] == [str(error) for error in gone]


def test_a_file_that_can_not_be_written_ends_the_export() -> None:
    assert _passed_over(LENIENT, failed(WriteFailed, errno.ENOENT)) is None


def test_statistics_of_what_can_not_be_read_now_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    task = FoldTask(FoundStore("/x", "jlog"), {}, (), ())
    how = Folding(60 * 10**9, Level.RECORD, None, None, fail_on_data_loss=False)

    def fail(code: int) -> None:
        def open_none(*_: object, **__: object) -> None:
            raise failed(StoreUnavailable, code)

        monkeypatch.setattr(stats_scan, "open_store", open_none)

    fail(errno.EIO)
    with pytest.raises(StoreUnavailable, match="input/output error"):
        list(run_fold_task(task, how))
    fail(errno.ENOENT)
    (batch,) = run_fold_task(task, how)
    assert "no such file" in str(batch.to_pylist())


def test_a_live_query_warns_once_of_a_folder_that_can_not_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """New stores are not found there meanwhile; that one is gone is no news, its stores are missed one by one."""
    answers = [errno.EIO, errno.EIO, None, errno.EIO, errno.ENOENT]

    def look(*_: object) -> list[FoundStore]:
        code = answers.pop(0)
        if code is not None:
            raise failed(StoreUnavailable, code)
        return []

    monkeypatch.setattr(tracking, "find_stores", look)
    tracker = tracking.Tracker(LENIENT, {}, discovery_s=0)
    told = []
    while answers:
        caplog.clear()
        tracker.poll()
        told.append([record.getMessage() for record in caplog.records if record.levelname == "WARNING"])
    assert [len(messages) for messages in told] == [1, 0, 0, 1, 0]
    assert "/x: can't search for new stores at present: /x/segment: input/output error" in told[0][0]
