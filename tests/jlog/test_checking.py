"""The check of journals: its warnings and the lag of its subscribers."""

from __future__ import annotations

import pytest

from everlog.core.monitoring.levels import Levels, Status
from everlog.errors import NotAStore
from everlog.jlog.checking import CRITICAL, check
from everlog.jlog.family import JLOG
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.monitoring.health import WARNINGS
from everlog.testing.storage.memory import MemoryStorage

NOW = 2_000


@pytest.fixture
def storage(make):
    """10 and 20 bytes at 0 and 26, then 30 in a second segment: 62 + 46 bytes, written 1000, 999 and 998 s ago."""
    return make.folder(
        {
            "00000000": make.message(b"x" * 10, 1000) + make.message(b"x" * 20, 1001),
            "00000001": make.message(b"x" * 30, 1002),
            checkpoint_name("a"): bytes([0, 0, 0, 0, 1, 0, 0, 0]),
            checkpoint_name("b"): bytes([1, 0, 0, 0, 1, 0, 0, 0]),
            "metastore": make.metastore(log=1),
        }
    )


def checked(storage, **given):
    limits = {option.field: option.default for option in JLOG.check_options}
    return check(storage, limits | given, NOW * 1_000_000_000)


def test_a_journal_that_is_read_is_ok(storage):
    result = checked(storage)
    assert (result.status, result.findings) == (Status.OK, [])
    assert result.summary == "2 segments, 108 bytes, 2 subscribers"
    # Of a, as in the metrics: 36 + 46 bytes of two messages, the older one 999 s old.
    assert [str(value) for value in result.measured] == [
        "lag_messages=2;;;0",
        "lag_bytes=82B;;;0",
        "lag_seconds=999s;3600;86400;0",
        "bytes=108B;;;0",
    ]


def test_the_largest_lag_counts_and_every_subscriber_over_a_level_is_a_detail(storage):
    storage.files[checkpoint_name("c")] = bytes(8)
    result = checked(storage, lag_messages=Levels(1, 2))
    assert result.status is Status.CRITICAL
    assert result.summary == "subscriber c lags by 3 messages, and 1 other"
    assert result.details[-2:] == ["subscriber c lags by 3 messages", "subscriber a lags by 2 messages"]
    aged = checked(storage, lag_seconds=Levels(998, 1_000), lag_bytes=Levels(107, 108))
    assert [(f.status.name, f.text) for f in aged.findings] == [
        ("WARNING", "subscriber c lags by 108 bytes"),
        ("WARNING", "subscriber c lags by 17 min, and 1 other"),
    ]


def test_warnings_of_the_journal_are_findings(storage):
    storage.files[checkpoint_name("lost")] = (99).to_bytes(4, "little") + bytes(4)
    result = checked(storage)
    assert result.status is Status.CRITICAL
    assert result.summary.startswith("checkpoint-without-segment: subscriber lost at 00000063:00000000")
    del storage.files[checkpoint_name("lost")], storage.files[checkpoint_name("a")], storage.files[checkpoint_name("b")]
    result = checked(storage)
    assert (result.status, result.summary) == (
        Status.WARNING,
        "no-subscribers: no subscribers, and 108 bytes in 2 segments",
    )


def test_a_note_is_a_detail_and_no_finding(storage, make):
    storage.files["metastore"] = make.metastore(log=1, safety=0)
    result = checked(storage)
    assert result.findings == []
    assert result.details[0].startswith("note safety-unsafe: ")


def test_critical_codes_are_codes():
    assert set(WARNINGS) > CRITICAL


def test_a_folder_without_a_journal_is_an_error():
    with pytest.raises(NotAStore, match="no JLog journal here"):
        checked(MemoryStorage({}))
