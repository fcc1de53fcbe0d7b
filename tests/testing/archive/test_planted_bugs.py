"""Simulations find bugs: each of these, planted into the service, fails one of the first seeds."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.service.control.session import ControlSession
from everlog.aeron.archive.service.recording.session import RecordingSession
from everlog.aeron.archive.service.replay.service import ReplayService
from everlog.aeron.archive.service.replay.session import ReplaySession
from everlog.aeron.archive.service.upkeep.deletion import Deletion
from everlog.aeron.archive.writing.segment_writer import SegmentWriter
from everlog.testing.archive.machines import MachineSimulation
from everlog.testing.archive.script import SimulationFailed

SEEDS = 150


def first_failure() -> str:
    for seed in range(SEEDS):
        try:
            MachineSimulation(seed).run()
        except SimulationFailed as failure:
            return str(failure).splitlines()[0]
    return "none"


def twice(method: Any) -> Any:
    def call(self: Any, *arguments: Any) -> None:
        method(self, *arguments)
        method(self, *arguments)

    return call


def nothing(*_: Any) -> None:
    """Leave it out."""


@pytest.mark.parametrize(
    ("owner", "name", "planted", "found"),
    [
        (ControlSession, "send_ok", twice(ControlSession.send_ok), "is answered again"),
        (ControlSession, "send_error", nothing, "no answer for"),
        (ControlSession, "is_listing", property(lambda self: False), "two listings"),
        (ControlSession, "_begin_deadline", nothing, "goes on"),
        (RecordingSession, "signal_start", nothing, "STOP of recording"),
        (SegmentWriter, "sync", nothing, "keeps"),
        (ReplayService, "replays_of", lambda self, recording_id: [], "is deleted under a replay"),
        (ReplaySession, "_check_frame", nothing, "damaged frame"),
        (Deletion, "close", nothing, "no DELETE"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_bug_is_found(
    owner: Any, name: str, planted: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert found in first_failure()
