"""Statuses of a check, and the levels at which a value changes its status. Source: Monitoring Plugins Development
Guidelines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """The status of a check; the value is its exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Levels:
    """A value above a level changes the status, with ``is_floor`` a value below it. ``None``: no such level."""

    warning: float | None = None
    critical: float | None = None
    is_floor: bool = False

    def status(self, value: float) -> Status:
        """The status of a value; a value that equals a level does not exceed it."""
        for level, status in ((self.critical, Status.CRITICAL), (self.warning, Status.WARNING)):
            if level is not None and (value < level if self.is_floor else value > level):
                return status
        return Status.OK

    def ranges(self) -> tuple[str, str]:
        """The levels as performance data have them: ``10`` alerts outside of 0 to 10, ``10:`` below 10."""
        texts = ["" if level is None else number_text(level) for level in (self.warning, self.critical)]
        warning, critical = (f"{text}:" if text and self.is_floor else text for text in texts)
        return warning, critical


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOption:
    """An option of ``everlog check``: ``field`` is its name for the family's check, ``flag`` its name on the command
    line. The type of ``default`` decides what it takes: two levels, a status, or a number of seconds."""

    field: str
    flag: str
    default: Levels | Status | float
    help: str


FREE_SPACE = CheckOption(
    field="free_percent",
    flag="--free-percent",
    default=Levels(10, 5, is_floor=True),
    help="Free space on the file system, in percent.",
)


NO_LEVELS = Levels()


def number_text(value: float) -> str:
    """A number without exponent and without needless digits; at most three after the point."""
    return str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")
