"""Runs simulations of the live archive, seed after seed: of its machines alone, and of whole systems.

``python -m everlog.testing.archive.soak --state FILE`` goes on after the last seeds that the file names, and adds to
its counts; a failure prints the seed and the script, and ends the run. ``--machine-seed 7`` and ``--system-seed 7``
repeat one run.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from everlog.testing.archive.machines import MachineSimulation
from everlog.testing.archive.script import SimulationFailed
from everlog.testing.archive.system import SystemSimulation

KINDS: dict[str, Callable[[int], Counter[str]]] = {
    "machine": lambda seed: MachineSimulation(seed).run(),
    "system": lambda seed: SystemSimulation(seed).run(),
}
SAVE_EVERY = 100


class Soak:
    """What was run so far: the number of seeds of each kind, and what happened in them."""

    def __init__(self, state: Path | None = None) -> None:
        self._state = state
        self.runs: Counter[str] = Counter()
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        if state is not None and state.exists():
            saved = json.loads(state.read_text())
            self.runs.update(saved["runs"])
            for kind, counts in saved["counts"].items():
                self.counts[kind].update(counts)

    def run(self, kind: str, wanted: int) -> None:
        """Run seeds until ``wanted`` of them are done. Raises :class:`SimulationFailed`; the next run begins with the
        same seed."""
        try:
            while self.runs[kind] < wanted:
                self.counts[kind].update(KINDS[kind](self.runs[kind]))
                self.runs[kind] += 1
                if self.runs[kind] % SAVE_EVERY == 0:
                    self.save()
        finally:
            self.save()

    def save(self) -> None:
        """Write the state."""
        if self._state is not None:
            text = json.dumps({"runs": self.runs, "counts": self.counts}, indent=1)
            draft = self._state.with_suffix(".draft")
            draft.write_text(text)
            draft.replace(self._state)

    def __str__(self) -> str:
        return "\n".join(
            f"{self.runs[kind]} {kind} runs: " + ", ".join(f"{count} {what}" for what, count in counts.most_common())
            for kind, counts in self.counts.items()
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.archive.soak", description=__doc__)
    parser.add_argument("--machines", type=int, default=50_000, help="seeds of the machines alone")
    parser.add_argument("--systems", type=int, default=50, help="seeds of whole systems")
    parser.add_argument("--machine-seed", type=int, help="run this one only")
    parser.add_argument("--system-seed", type=int, help="run this one only")
    parser.add_argument("--state", type=Path, help="file with what was run so far")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # what an archive logs about such clients is no news
    single = {"machine": chosen.machine_seed, "system": chosen.system_seed}
    soak, begun_s = Soak(chosen.state), time.monotonic()
    try:
        if any(seed is not None for seed in single.values()):
            for kind, seed in single.items():
                if seed is not None:
                    soak.counts[kind].update(KINDS[kind](seed))
                    soak.runs[kind] += 1
        else:
            soak.run("machine", chosen.machines)
            soak.run("system", chosen.systems)
    except SimulationFailed as failure:
        print(failure)
        return 1
    finally:
        logging.disable(logging.NOTSET)
        print(soak)
        print(f"{time.monotonic() - begun_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
