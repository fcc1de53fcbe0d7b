"""The live archive in simulations: whatever the seed lets happen, all invariants hold. ``EVERLOG_EFFORT=1`` runs many
seeds; ``make soak-archive-simulation`` more of them. A failure names the command that repeats it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from everlog.testing.archive import soak
from everlog.testing.archive.machines import MachineSimulation
from everlog.testing.archive.soak import Soak
from everlog.testing.archive.system import SystemSimulation
from everlog.testing.series import Series

MACHINES, SYSTEMS = 4000, 60


def test_the_machines_keep_their_promises(series: Series) -> None:
    counts: Counter[str] = Counter()
    for seed in range(series.rounds(MACHINES)):
        counts += MachineSimulation(seed).run()
    frequent = "replayed frames", "START", "STOP", "EXTEND", "DELETE", "crashes", "comparisons", "deleted files"
    for what in (*frequent, "held up clients", "disk faults"):
        assert counts[what], f"no {what}"


def test_a_whole_system_keeps_its_promises(series: Series) -> None:
    counts: Counter[str] = Counter()
    for seed in range(series.rounds(SYSTEMS)):
        counts += SystemSimulation(seed).run()
    rare = "driver deaths", "driver pauses", "archives without a driver", "replays over response channels"
    is_whole = series.rounds(SYSTEMS) == SYSTEMS
    for what in ("replayed frames", "START", "STOP", "crashes", "deaf clients", *(rare if is_whole else ())):
        assert counts[what], f"no {what}"


@pytest.mark.parametrize("kind", [MachineSimulation, SystemSimulation])
def test_the_same_seed_gives_the_same_run(kind: type[MachineSimulation | SystemSimulation]) -> None:
    scripts = []
    for _ in range(2):
        simulation = kind(11)
        simulation.run()
        scripts.append(simulation.script.lines)
    assert scripts[0] == scripts[1]


def test_a_soak_goes_on_where_the_last_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def run(seed: int) -> Counter[str]:
        seeds.append(seed)
        return Counter(replays=2)

    monkeypatch.setitem(soak.KINDS, "machine", run)
    state = tmp_path / "state.json"
    Soak(state).run("machine", 3)
    again = Soak(state)
    again.run("machine", 5)
    assert seeds == [0, 1, 2, 3, 4]
    assert again.counts["machine"] == Counter(replays=10)
    assert str(again).startswith("5 machine runs: 10 replays")
