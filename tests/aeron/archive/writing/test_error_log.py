"""The error log of a mark file."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron import archive
from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.writing.error_log import open_error_log
from everlog.aeron.archive.writing.ownership import ERROR_LOG_BYTES, HEADER_LENGTH
from everlog.aeron.error_log import DistinctError, read_errors
from everlog.aeron.layouts import ErrorEntry
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage, WritableFile
from everlog.errors import UsageError

START, LENGTH = 64, 512


@pytest.fixture
def file(tmp_path: Path) -> WritableFile:
    opened = LocalWritableStorage(tmp_path).open_writable("log", create=True)
    opened.truncate(START + LENGTH + 64)
    return opened


def errors(file: WritableFile) -> list[DistinctError]:
    return read_errors(file.read_at(START, LENGTH))


def test_each_error_is_there_once_with_its_count_and_times(file: WritableFile) -> None:
    log = open_error_log(file, START, LENGTH)
    for at_ms, text in enumerate(("one", "two", "one", "one"), 1_000):
        assert log.record(text, at_ms)
    assert errors(file) == [DistinctError(3, 1_000, 1_003, "one"), DistinctError(1, 1_001, 1_001, "two")]
    assert not any(file.read_at(0, START))
    assert not any(file.read_at(START + LENGTH, 64))


def test_the_errors_of_the_owner_before_stay(file: WritableFile) -> None:
    open_error_log(file, START, LENGTH).record("before", 1)
    open_error_log(file, START, LENGTH).record("after", 2)
    assert [(error.text, error.observation_count) for error in errors(file)] == [("before", 1), ("after", 1)]


def test_a_log_that_is_half_full_begins_anew(file: WritableFile) -> None:
    assert open_error_log(file, START, LENGTH).record("x" * (LENGTH // 2), 1)
    open_error_log(file, START, LENGTH).record("after", 2)
    assert [error.text for error in errors(file)] == ["after"]


def test_a_part_of_an_entry_of_a_killed_owner_is_not_read_as_an_error(file: WritableFile) -> None:
    open_error_log(file, START, LENGTH).record("before", 1)
    at = START + 32  # the killed owner had written the text, and not the length yet
    looks_like_an_entry = ErrorEntry.pack(length=ErrorEntry.size + 8, last_observation_timestamp=9) + b"from gap"
    file.write_at(at + ErrorEntry.size, b"whatever" + looks_like_an_entry)
    log = open_error_log(file, START, LENGTH)
    log.record("12345678", 2)  # as long as what is before the false entry
    assert [error.text for error in errors(file)] == ["before", "12345678"]


def test_an_error_that_does_not_fit_is_left_out(file: WritableFile) -> None:
    log = open_error_log(file, START, LENGTH)
    assert not log.record("x" * LENGTH, 1)
    assert log.record("short", 2)
    assert [error.text for error in errors(file)] == ["short"]


def test_an_archives_errors_are_in_its_mark_file_until_another_owner_has_it(tmp_path: Path) -> None:
    with archive.create(tmp_path) as store:
        for _ in range(3):
            store.record_error(UsageError("a stream", found="nothing", expected="something"))
        mark = load_mark(LocalStorage(tmp_path))
        assert mark is not None
        (error,) = mark.errors
        assert error.observation_count == 3
        assert error.text.startswith("everlog.errors.UsageError: a stream")
        assert mark.header.error_buffer_length == ERROR_LOG_BYTES
        before = (tmp_path / "archive-mark.dat").read_bytes()
    store.record_error(UsageError("too", found="late", expected="never"))
    after = (tmp_path / "archive-mark.dat").read_bytes()
    assert before[HEADER_LENGTH:] == after[HEADER_LENGTH:]
