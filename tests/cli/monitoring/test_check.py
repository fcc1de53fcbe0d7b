"""``everlog check``: lines and exit codes for monitoring systems."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

import tests
from everlog.cli.monitoring.check import plain
from everlog.cli.monitoring.limits import all_check_options, default_text
from everlog.core.family.record import load
from everlog.stores import FAMILIES
from everlog.testing.contract import snapshot

GOLDEN = tests.GOLDEN
HEARTBEAT_NS = 1_795_242_081_855 * 1_000_000
"""Of the golden driver."""
VALUE = r"[a-z_]+=-?\d+(\.\d+)?(s|B|%|c)?(;(-?\d+(\.\d+)?:?)?){0,4}"
LINE = re.compile(rf"(OK|WARNING|CRITICAL|UNKNOWN): [^|\n]+( \| {VALUE}( {VALUE})*)?")
"""A status line, with the plugin syntax of performance data."""
ROOMY = ("--free-percent", "0,0")


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    return inner


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    return unpacked("aeron/transport/aeron-dir", tmp_path / "driver")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return unpacked("aeron/archive-basic/archive", tmp_path / "archive")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return unpacked("jlog/basic/log", tmp_path / "journal")


def test_the_exit_code_is_the_status(everlog, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age_s, levels, status, code in [
        (1, ",", "OK", 0),
        (1, "0,", "WARNING", 1),
        (7, ",", "WARNING", 1),
        (60, ",", "CRITICAL", 2),
    ]:
        monkeypatch.setattr("time.time_ns", lambda age_s=age_s: HEARTBEAT_NS + age_s * 10**9)
        result = everlog("check", driver, "--errors", levels, *ROOMY)
        first, *details = result.text.splitlines()
        assert (result.code, result.stderr) == (code, "")
        assert LINE.fullmatch(first), first
        assert first.startswith(f"{status}: Aeron media driver's folder {driver}: ")
        assert all("|" not in line for line in details)
        assert f" heartbeat_age={age_s}s;5;10;0" in first


def test_checks_and_metrics_change_no_byte(everlog, driver: Path, archive: Path, journal: Path) -> None:
    for path in (driver, archive, journal):
        before = snapshot(path)
        assert everlog("check", path).code in (0, 1, 2)
        assert everlog("check", path, "--json").code in (0, 1, 2)
        assert everlog("metrics", path, "--once").code == 0
        assert snapshot(path) == before


def test_json_is_one_object_with_the_same_exit_code(everlog, archive: Path) -> None:
    result = everlog("check", archive, "--json", "--stopped", "warning", *ROOMY)
    (row,) = result.rows
    assert (result.code, row["code"], row["status"]) == (1, 1, "WARNING")
    assert (row["path"], row["family"], row["summary"]) == (str(archive), "aeron-archive", "the archive was stopped")
    assert {"label": "recordings", "value": 13, "unit": "", "warning": None, "critical": None, "maximum": None} in row[
        "performance"
    ]


def test_a_journal_is_checked_with_its_own_levels(everlog, journal: Path) -> None:
    # alpha, which is the slowest, waits for 78 messages of 9152 bytes.
    generous = (*ROOMY, "--lag-seconds", ",")
    result = everlog("check", journal, *generous, "--lag-messages", "77,78", "--lag-bytes", "9152,9152", "--json")
    findings = [(finding["status"], finding["text"]) for finding in result.rows[0]["findings"]]
    assert ("WARNING", "subscriber alpha lags by 78 messages") in findings
    assert not [text for _, text in findings if "bytes" in text and "lags" in text]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "Missing argument 'PATH'"),
        (("--nosuch",), "No such option"),
        (("p", "q"), "unexpected extra argument"),
        (("{d}", "--errors", "1"), "'1' is not WARNING,CRITICAL"),
        (("{d}", "--errors", "1,2,3"), "is not WARNING,CRITICAL"),
        (("{d}", "--errors", "x,"), "'x' is not a number from 0 on"),
        (("{d}", "--errors", "nan,"), "is not a number from 0 on"),
        (("{d}", "--errors", "-1,"), "is not a number from 0 on"),
        (("{d}", "--errors", "3,2"), "the critical level is milder"),
        (("{d}", "--free-percent", "5,10"), "the critical level is milder"),
        (("{d}", "--stopped", "unknown"), "is not ok, warning or critical"),
        (("{d}", "--error-window", "inf"), "is not a number of seconds"),
        (("{d}", "--family", "nosuch"), "'nosuch' is not one of"),
        (("{d}", "--lag-bytes", "1,2"), "--lag-bytes does not apply to Aeron media driver's folders"),
        (("{d}", "--family", "nats-streaming"), "NATS Streaming stores have none"),
    ],
)
def test_wrong_usage_is_unknown(everlog, driver: Path, arguments: tuple[str, ...], text: str) -> None:
    result = everlog("check", *(str(driver) if argument == "{d}" else argument for argument in arguments))
    (line,) = result.text.splitlines()
    assert (result.code, result.stderr) == (3, "")
    assert line.startswith("UNKNOWN: ")
    assert text in line


def test_a_folder_that_is_missing(everlog, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    result = everlog("check", gone)
    assert (result.code, result.text) == (3, f"UNKNOWN: no such file or directory: {gone}\n")
    for family, title in [
        ("aeron-driver", "Aeron media driver's folder"),
        ("aeron-archive", "Aeron archive"),
        ("jlog", "JLog journal"),
    ]:
        result = everlog("check", gone, "--family", family)
        assert result.code == 2
        assert result.text == f"CRITICAL: {title} {gone}: no such file or directory: {gone}\n"
    assert everlog("check", gone, "--family", "aeron-driver", "--stopped", "ok").code == 0


def test_a_folder_that_is_no_store_and_a_file(everlog, tmp_path: Path) -> None:
    result = everlog("check", tmp_path)
    assert result.code == 3
    assert result.text.startswith("UNKNOWN: no store here: ")
    file = tmp_path / "file"
    file.write_bytes(b"x")
    assert everlog("check", file).code == 3
    result = everlog("check", tmp_path, "--family", "jlog")
    assert (result.code, result.text) == (2, f"CRITICAL: JLog journal {tmp_path}: no JLog journal here: {tmp_path}\n")


def test_a_version_that_is_not_known_is_unknown(everlog, driver: Path) -> None:
    cnc = driver / "cnc.dat"
    cnc.write_bytes((1 << 16).to_bytes(4, "little") + cnc.read_bytes()[4:])
    result = everlog("check", driver)
    assert result.code == 3
    assert result.text.startswith("UNKNOWN: cnc.dat at offset 0: version 1.0.0; expected version 0.2.x")


def test_a_bug_is_unknown_too(everlog, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("made up")

    monkeypatch.setattr("everlog.aeron.transport.monitoring.checking.observe_driver", broken)
    result = everlog("check", driver)
    assert (result.code, result.text) == (3, "UNKNOWN: internal error, please report: ZeroDivisionError: made up\n")


def test_no_text_can_begin_performance_data() -> None:
    assert plain("a|b\n\x1b[2J") == "a\\x7cb\\n\\x1b[2J"


def test_help_tells_each_default_as_it_is_given(everlog) -> None:
    result = everlog("check", "--help")
    assert result.code == 0
    text = " ".join(result.text.split())
    for option in all_check_options():
        assert f"Default: {default_text(option)}." in text


def test_options_of_the_same_flag_are_one() -> None:
    flags = [option.flag for option in all_check_options()]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("family", [f for f in FAMILIES.values() if f.checking], ids=lambda family: family.name)
def test_a_family_with_a_check_has_metrics_too(family) -> None:
    assert callable(load(family.checking))
    assert family.collector is not None
