"""Simulations find bugs: each of these, planted into the service, fails one of the first seeds in its own way."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.archive.service.control import sessions as sessions_module
from everlog.aeron.archive.service.control.session import SESSION_CLOSED, ControlSession
from everlog.aeron.archive.service.counters import ArchiveCounters
from everlog.aeron.archive.service.recording.session import RecordingSession
from everlog.aeron.archive.service.recording.unstopped import UnstoppedRecordings
from everlog.aeron.archive.service.replay.service import ReplayService
from everlog.aeron.archive.service.replay.session import ReplaySession
from everlog.aeron.archive.service.upkeep.deletion import Deletion
from everlog.aeron.archive.writing.segment_writer import SegmentWriter
from everlog.testing.archive import system as system_module
from everlog.testing.archive.machines import MachineSimulation
from everlog.testing.archive.script import SimulationFailed
from everlog.testing.archive.system import SystemSimulation

SEEDS = {MachineSimulation: 150, SystemSimulation: 45}


def is_found(text: str, simulation: type[MachineSimulation | SystemSimulation] = MachineSimulation) -> bool:
    """Whether one of the seeds fails with a text. Others may show the bug in another way."""
    for seed in range(SEEDS[simulation]):
        try:
            simulation(seed).run()
        except SimulationFailed as failure:
            if text in str(failure).splitlines()[0]:
                return True
    return False


def twice(method: Any) -> Any:
    def call(self: Any, *arguments: Any) -> None:
        method(self, *arguments)
        method(self, *arguments)

    return call


run_cycle = ArchiveConductor.do_work


def quiet_about_its_driver(self: ArchiveConductor, now_ns: int, now_ms: int = 0) -> int:
    """Run a cycle, unless the driver has ended."""
    return 0 if self.is_cut_off else run_cycle(self, now_ns, now_ms)


abort = ControlSession.abort


def deaf_to_ends(self: ControlSession, reason: str) -> None:
    """End the session only if its client asks for it. When a client is gone, its image, its subscription and the
    deadline end the session: any one of them would hide the loss of the others."""
    if reason == SESSION_CLOSED:
        abort(self, reason)


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
        (ControlSession, "is_behind", property(lambda self: False), "bytes wait for the client"),
        (UnstoppedRecordings, "do_work", lambda self, now_ns: 0, "nobody records it"),
        (ArchiveCounters, "close", nothing, "after a close there are counters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_bug_is_found(
    owner: Any, name: str, planted: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert is_found(found)


@pytest.mark.parametrize(
    ("owner", "name", "planted", "found"),
    [
        pytest.param(
            *(system_module, "CLIENT", {"driver_timeout_ms": 100_000}, "does not notice that its driver died"),
            marks=pytest.mark.long,
        ),
        (ArchiveConductor, "do_work", quiet_about_its_driver, "goes on without a driver"),
        pytest.param(
            *(sessions_module, "_has_token", lambda request: False, "no answer for replay"), marks=pytest.mark.long
        ),
        (ControlSession, "_begin_deadline", nothing, "goes on, although nothing could be sent to it"),
        pytest.param(
            *(ControlSession, "is_behind", property(lambda self: False), "bytes wait for the client"),
            marks=pytest.mark.long,
        ),
        (ControlSession, "abort", deaf_to_ends, "goes on"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bug_planted_into_a_whole_system_is_found(
    owner: Any, name: str, planted: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert is_found(found, SystemSimulation)
