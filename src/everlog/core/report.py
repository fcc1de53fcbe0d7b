"""The results of ``verify``. Reading never repairs: a report only says what is wrong and how to repair it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

Progress = Callable[[str, int, int], None]
"""``progress(what, done_bytes, total_bytes)``: called from time to time during long work."""


class Severity(Enum):
    """``FAULT``: something is lost, unreadable or would stop the original system (exit code 1). ``NOTE``: it heals by
    itself, or is odd but harmless (exit code 0)."""

    FAULT = "fault"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    ``code`` is a stable kebab-case name, the same in all reports (listed in ``docs/verify.md``); ``file`` is relative
    to the store; ``offset`` is a byte offset in it, ``None`` if the whole file is meant; ``loses`` says what a reader
    loses, ``repair`` how to repair it; ``stream`` and ``address`` are those of the first record concerned, if any.
    """

    code: str
    file: str
    offset: int | None
    found: str
    expected: str
    loses: str = "nothing"
    repair: str = "none needed"
    severity: Severity = Severity.FAULT
    stream: str | None = None
    address: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as printed by ``--json``."""
        return asdict(self) | {"severity": self.severity.value}

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at offset {self.offset}"
        return f"{place}: {self.code}: {self.found}; expected {self.expected}; readers lose {self.loses}"


@dataclass(slots=True)
class Report:
    """The result of checking one store. The counts cover what was checked and found intact."""

    store: str
    family: str
    faults: list[Fault] = field(default_factory=list)
    stream_count: int = 0
    segment_count: int = 0
    record_count: int = 0
    byte_count: int = 0

    def add(self, fault: Fault) -> None:
        """Append a fault or a note."""
        self.faults.append(fault)

    @property
    def ok(self) -> bool:
        """Whether there are no faults; notes do not count."""
        return not any(f.severity is Severity.FAULT for f in self.faults)

    @property
    def exit_code(self) -> int:
        """The command line's exit code: 0 or 1."""
        return 0 if self.ok else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as printed by ``--json``."""
        return {
            "store": self.store,
            "family": self.family,
            "ok": self.ok,
            "streams": self.stream_count,
            "segments": self.segment_count,
            "records": self.record_count,
            "bytes": self.byte_count,
            "faults": [f.to_dict() for f in self.faults],
        }


@dataclass(frozen=True, slots=True)
class VerifyPart:
    """A part of a store that can be verified on its own, also in another process. ``byte_count`` estimates the work;
    ``context`` belongs to the family, is small and picklable, and ``None`` for the whole store.

    Damage may span parts. If any of the parts with the same ``again`` reports something, all of them are replaced by
    one part with that context (see :func:`everlog.core.verification.join`).
    """

    byte_count: int
    context: Any = None
    again: Any = None
