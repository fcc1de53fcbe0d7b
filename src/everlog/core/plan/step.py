"""One step of a plan: a change of a store's files that a crash can't make worse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from everlog.core.files.writable import WritableStorage
from everlog.core.plan.backup import Backup
from everlog.core.plan.changed import changed

NOTHING = "nothing"
"""The value of ``loses`` for a step that loses nothing."""


@dataclass(frozen=True, kw_only=True)
class RepairStep(ABC):
    """One change: the file it changes, the content before and after it in words, and what it loses or moves.

    ``after_crash`` says what a crash in the step, or right after it, leaves. Every class that can be applied has its
    own.
    """

    after_crash: ClassVar[str]

    file: str
    before: str
    after: str
    loses: str = NOTHING

    @abstractmethod
    def check(self) -> None:
        """Check that the step can be applied; changes nothing. Raises :class:`FileChanged` if the file is not as it
        was when the step was planned, :class:`StoreUnavailable` if a process has it open that must not."""

    @abstractmethod
    def apply(self, backup: Backup | None) -> str:
        """Apply the step and return what was done, in words. Raises as ``check`` does, and :class:`WriteFailed`; after
        an error, and after a crash, the store is no worse than before."""

    def undo(self) -> dict[str, Any] | None:
        """How to undo the step: a ``kind`` and its values, as plain values. ``None`` if nothing undoes it."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them; with ``undo`` for a step that can be undone."""
        values = {"file": self.file, "before": self.before, "after": self.after, "loses": self.loses}
        undo = self.undo()
        return values if undo is None else {**values, "undo": undo}


@dataclass(frozen=True, kw_only=True)
class FolderStep(RepairStep):
    """A step on files of one folder."""

    storage: WritableStorage

    def expect_size(self, name: str, size: int) -> None:
        """Raises :class:`FileChanged` unless the file exists with this size."""
        if not self.storage.exists(name):
            raise changed(name, "no file", f"{size} bytes")
        now = self.storage.size(name)
        if now != size:
            raise changed(name, f"{now} bytes", f"{size} bytes")

    def expect_none(self, name: str) -> None:
        """Raises :class:`FileChanged` if the file exists."""
        if self.storage.exists(name):
            raise changed(name, "a file", "none")
