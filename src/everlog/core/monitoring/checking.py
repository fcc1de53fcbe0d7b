"""The result of checking a store: findings, details, and performance data.

A family's check is a function from a storage, the values of its options by field, and the time in nanoseconds since
1970. It changes nothing, and raises :class:`EverlogError` if it can't find out the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.core.files.storage import Storage
from everlog.core.monitoring.free_space import free_space
from everlog.core.monitoring.levels import FREE_SPACE, NO_LEVELS, Levels, Status, number_text

Limits = Mapping[str, Any]
"""Values of a family's check options, by field."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    status: Status
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A value for performance data. ``unit`` is ``s``, ``B``, ``%``, ``c`` (a count that only rises) or empty."""

    label: str
    value: float
    unit: str = ""
    levels: Levels = NO_LEVELS
    maximum: float | None = None

    def __str__(self) -> str:
        warning, critical = self.levels.ranges()
        maximum = "" if self.maximum is None else number_text(self.maximum)
        return f"{self.label}={number_text(self.value)}{self.unit};{warning};{critical};0;{maximum}".rstrip(";")

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "label": self.label,
            "value": self.value,
            "unit": self.unit,
            "warning": self.levels.warning,
            "critical": self.levels.critical,
            "maximum": self.maximum,
        }


@dataclass(slots=True)
class CheckResult:
    """``facts`` are what the first line says if nothing is found, ``details`` the lines after it."""

    facts: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """The worst status of the findings."""
        return max((finding.status for finding in self.findings), default=Status.OK)

    @property
    def summary(self) -> str:
        """The findings, the worst first, or the facts."""
        worst_first = sorted(self.findings, key=lambda finding: -finding.status)
        return "; ".join(finding.text for finding in worst_first if finding.status) or ", ".join(self.facts)

    def find(self, status: Status, text: str) -> None:
        """Add a finding; one that is OK becomes a fact."""
        if status is Status.OK:
            self.facts.append(text)
        else:
            self.findings.append(Finding(status, text))

    def measure(
        self,
        label: str,
        value: float,
        text: str,
        *,
        unit: str = "",
        levels: Levels = NO_LEVELS,
        maximum: float | None = None,
    ) -> Status:
        """Add a value to the performance data, and ``text`` as a finding if the value exceeds one of its levels.
        Returns the value's status."""
        self.measured.append(Measured(label=label, value=value, unit=unit, levels=levels, maximum=maximum))
        status = levels.status(value)
        if status is not Status.OK:
            self.findings.append(Finding(status, text))
        return status

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "status": self.status.name,
            "code": int(self.status),
            "summary": self.summary,
            "findings": [{"status": finding.status.name, "text": finding.text} for finding in self.findings],
            "details": list(self.details),
            "performance": [value.to_dict() for value in self.measured],
        }


CheckFunction = Callable[[Storage, Limits, int], CheckResult]


def measure_free_space(result: CheckResult, storage: Storage, limits: Limits) -> None:
    """Add the free space of the store's file system, if it is known."""
    space = free_space(storage)
    if space is None:
        return
    text = f"{space.percent:.1f} % of the file system is free ({space.free_bytes} bytes)"
    result.measure("free", space.percent, text, unit="%", levels=limits[FREE_SPACE.field], maximum=100)
    result.measure("free_bytes", space.free_bytes, text, unit="B", maximum=space.usable_bytes)
