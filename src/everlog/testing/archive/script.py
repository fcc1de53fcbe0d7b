"""What a simulated run did, line by line; a failure shows it."""

from __future__ import annotations

from typing import NoReturn

from everlog.time_units import NS_PER_MS, NS_PER_S

SHOWN_LINES = 200


class SimulationFailed(AssertionError):
    """An invariant does not hold. The text has the seed, with which the run can be repeated, and the script."""


class Script:
    """The actions of one run. ``command`` is how to repeat it."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.lines: list[str] = []
        self.now_ns = 0

    def note(self, text: str) -> None:
        """Add a line."""
        self.lines.append(f"{self.now_ns / NS_PER_MS:9.1f} ms  {text}")

    def sleep(self, seconds: float) -> None:
        """Let time pass while somebody waits."""
        self.now_ns += round(seconds * NS_PER_S)

    def fail(self, text: str) -> NoReturn:
        """Raise :class:`SimulationFailed`."""
        left_out = max(len(self.lines) - SHOWN_LINES, 0)
        shown = ([f"... {left_out} lines ..."] if left_out else []) + self.lines[left_out:]
        raise SimulationFailed("\n".join([text, f"at {self.now_ns / NS_PER_MS:.1f} ms of {self.command}", *shown]))

    def require(self, holds: object, text: str) -> None:
        """Fail unless ``holds``."""
        if not holds:
            self.fail(text)
