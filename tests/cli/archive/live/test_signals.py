"""everlog archive DIR signals."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from everlog.cli.archive.live import signals
from tests.cli.archive.served_archive import Served
from tests.cli.conftest import Everlog


def test_recordings_that_start_and_stop_are_printed_until_ctrl_c(
    archive: Served, everlog: Everlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.recorded([b"before"])
    begun: list[tuple] = []  # type: ignore[type-arg]

    def interrupt() -> None:
        raise KeyboardInterrupt

    steps: list[Callable[[], object]] = [
        lambda: begun.append(archive.begin(archive.stream(), [b"one", b"two"])),
        lambda: archive.end(*begun[0]),
        lambda: None,
        interrupt,
    ]
    # What happens between two looks at the archive.
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: steps.pop(0)()))
    found = everlog("archive", archive.folder, "signals", "--json")
    assert (found.code, found.stderr) == (130, "\n")  # below the ^C of the terminal
    recording_id = begun[0][0]
    assert found.rows == [
        {"recording_id": recording_id, "signal": "START", "position": 0},
        {"recording_id": recording_id, "signal": "STOP", "position": 128},
    ]


def test_nothing_happens_in_a_while_that_is_over(archive: Served, everlog: Everlog) -> None:
    found = everlog("archive", archive.folder, "signals", "--for", "0.05")
    assert (found.code, found.text, found.stderr) == (0, "", "")
    assert everlog("archive", archive.folder, "signals", "--for", "soon").code == 2
