"""Which tests run in one process where pytest has several (those of a file, or of Spark), and files of other users."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from everlog.testing.series import Series

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests for ``make test``, ``test-long`` and ``interop``, and say which of them run in one process.

    Fixtures of a module are made once for each process: a file's tests stay together, and so do all that use Spark's
    session."""
    for item in items:
        path = item.path.relative_to(HERE)
        names = getattr(item, "fixturenames", ())
        if "series" in names or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.series)
        if path.parts[0] == "interop":
            item.add_marker(pytest.mark.peer)
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in names else str(path)))
