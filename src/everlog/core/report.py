"""What ``verify`` finds. Reading never repairs: a report says what is wrong and how it could be mended, no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

Progress = Callable[[str, int, int], None]
"""``progress(what, done_bytes, total_bytes)``: called now and then by long work."""


class Severity(Enum):
    """``FAULT``: something is lost, unreadable or would stop the real system (exit code 1). ``NOTE``: it heals by
    itself, or is odd but harmless (exit code 0).
    """

    FAULT = "fault"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    ``code`` is a stable kebab-case name, the same in all reports (listed in ``docs/verify.md``); ``file`` is
    relative to the store; ``offset`` is in that file, ``None`` when the file as a whole is meant; ``loses`` says
    what a reader loses, ``repair`` how it could be mended; ``stream`` and ``address`` tell the first record
    concerned, where there is one.
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
        """Plain values, as ``--json`` prints them."""
        return asdict(self) | {"severity": self.severity.value}

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at offset {self.offset}"
        return f"{place}: {self.code}: found {self.found}, expected {self.expected}; a reader loses {self.loses}"


@dataclass(slots=True)
class Report:
    """The result of checking one store. Counts are of what was looked at and found whole."""

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
        """No fault; notes do not count."""
        return not any(f.severity is Severity.FAULT for f in self.faults)

    @property
    def exit_code(self) -> int:
        """0 or 1, as the command line returns it."""
        return 0 if self.ok else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
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
    """A part of a store's verification that can be done by itself, in another process too. ``byte_count`` is an
    estimate of the work; ``context`` is the family's own, small and picklable, ``None`` for the whole store.

    Damage may lie across parts. Where one of those with the same ``again`` finds anything, all of them are to be
    replaced by one part with that context (see :func:`everlog.core.verification.join`).
    """

    byte_count: int
    context: Any = None
    again: Any = None
