"""A plan: steps in an order in which a crash after any of them costs nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from everlog.core.plan.backup import Backup
from everlog.core.plan.step import NOTHING, RepairStep
from everlog.core.report import Fault, Progress


@dataclass(frozen=True)
class RepairPlan:
    """The changes of a store, in order. ``unrepaired`` lists the faults that remain because nothing can mend them."""

    store: str
    family: str
    steps: tuple[RepairStep, ...]
    unrepaired: tuple[Fault, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether the plan changes nothing."""
        return not self.steps

    @property
    def loses(self) -> list[str]:
        """What is lost or moved: a line for each step that loses something."""
        return [f"{step.file}: {step.loses}" for step in self.steps if step.loses != NOTHING]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
        return {
            "store": self.store,
            "family": self.family,
            "empty": self.is_empty,
            "steps": [step.to_dict() for step in self.steps],
            "remains": [fault.to_dict() for fault in self.unrepaired],
        }

    def apply(self, progress: Progress | None = None, *, backup: Backup | None = None) -> list[str]:
        """Apply all steps and return what was done, a line for each. All steps are checked before the first is applied,
        and each again just before it is applied.

        ``backup`` receives the bytes that are removed or overwritten, and the plan as ``plan.json``. Raises
        :class:`FileChanged` (plan again), :class:`StoreUnavailable` (a process has a file open that must not),
        :class:`WriteFailed`; a step that was not applied has changed nothing.
        """
        for step in self.steps:
            step.check()
        if backup is not None and self.steps:
            backup.save("plan.json", [json.dumps(self.to_dict(), indent=1).encode()])
        done: list[str] = []
        for number, step in enumerate(self.steps):
            if progress is not None:
                progress(f"repair {step.file}", number, len(self.steps))
            done.append(step.apply(backup))
        return done
