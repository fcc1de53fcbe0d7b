"""Which tests a run chooses, and which of them run in one process; skips that a complete run may have; files of other
users."""

from __future__ import annotations

import os
import re
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from everlog.testing.series import Series
from tests.toy_stores import golden, toy

__all__ = ["golden", "toy"]

HERE = Path(__file__).parent


class Owners:
    """Files that seem to be other users', to a process that seems to be root; ``given`` are owner and group of each
    file that it gave away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[int, int]] = []
        self._seeming: dict[str, tuple[int, int]] = {}
        self._stat = os.stat
        monkeypatch.setattr(os, "stat", self._look)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: self.given.append((uid, gid)))

    def seem(self, path: Path, uid: int, gid: int) -> None:
        """Let a file or folder seem to have that owner and group."""
        self._seeming[str(path)] = uid, gid

    def _look(self, path: Any, **how: Any) -> Any:
        found = self._stat(path, **how)
        seeming = None if isinstance(path, int) else self._seeming.get(os.fspath(path))
        if seeming is None:
            return found
        names = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**names | {"st_uid": seeming[0], "st_gid": seeming[1]})


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    """See :class:`Owners`."""
    return Owners(monkeypatch)


SERIES = Series.from_environment()


@pytest.fixture
def series() -> Series:
    """The part of a long series that this run tries. ``make test-long`` runs the tests that ask for it in full."""
    return SERIES


# A machine that is busy with other things makes no test fail; pytest-timeout ends what hangs.
settings.register_profile(
    "everlog", max_examples=SERIES.rounds(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("everlog")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests for ``make test``, ``test-long`` and ``interop``, and say which of them run in one process.

    Fixtures of a module are made once for each process: a file's tests stay together, and so do all that use Spark's
    session. xdist reads the groups in a hook that other plain ones come behind: so this is a wrapper."""
    for item in items:
        path = item.path.relative_to(HERE)
        names = getattr(item, "fixturenames", ())
        if "series" in names or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.series)
        if path.parts[0] == "interop":
            item.add_marker(pytest.mark.peer)
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in names else str(path)))
    yield


def pytest_configure() -> None:
    # A job that a shell starts in the background ignores Ctrl-C, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def unexpected_skips(reports: list[pytest.TestReport]) -> list[str]:
    """Those that ``expected_skips.toml`` does not list, a line each."""
    listed = tomllib.loads((HERE / "expected_skips.toml").read_text())["skip"]
    found = []
    for report in reports:
        file = report.nodeid.split("::")[0]
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not any(re.fullmatch(one["tests"], file) and re.fullmatch(one["reason"], reason) for one in listed):
            found.append(f"{report.nodeid}: {reason}")
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``EVERLOG_SKIPS=expected``, a skip that is not expected fails the run."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("EVERLOG_SKIPS") != "expected" or terminal is None or hasattr(session.config, "workerinput"):
        return
    if found := unexpected_skips(terminal.stats.get("skipped", [])):
        terminal.write_line("")
        terminal.write_line("skipped, and not listed in tests/expected_skips.toml:", red=True)
        for line in found:
            terminal.write_line(f"  {line}")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
