"""All the folders that the death of a writer can leave, for crash tests."""

from __future__ import annotations

from collections.abc import Callable

from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.ledger import Ledger

Scenario = Callable[[CrashingStorage, Ledger], object]


def moments(storage: CrashingStorage, scenario: Scenario) -> list[tuple[str, CrashingStorage, Ledger]]:
    """Return the folder after each operation of a scenario, as the death of the process leaves it there, and what was
    acknowledged until then."""
    ledger = Ledger()
    found: list[tuple[str, CrashingStorage, Ledger]] = []

    def note(what: str) -> None:
        found.append((f"{len(found)}: {what}", storage.kill(), ledger.copy()))

    note("begin")
    storage.after_each = note
    scenario(storage, ledger)
    note("end")
    storage.after_each = None
    return found
