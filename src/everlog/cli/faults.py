"""Prints faults met while reading: a warning for each, and exit code 1 at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from everlog.cli.text import print_error, warn
from everlog.core.counting import counted
from everlog.core.report import Fault, Severity
from everlog.errors import CorruptData, StoreUnavailable

MAX_WARNINGS = 50
"""Further faults are counted, not printed."""


class FaultPrinter:
    """An ``on_fault`` that prints each fault once and remembers the exit code."""

    def __init__(self) -> None:
        self.exit_code = 0
        self._seen: set[tuple[str, str, int | None]] = set()
        self._unprinted = 0

    def __call__(self, fault: Fault) -> None:
        """Print a fault, unless it was printed before."""
        if fault.severity is Severity.FAULT:
            self.exit_code = 1
        key = fault.code, fault.file, fault.offset
        if key in self._seen:
            return
        if len(self._seen) >= MAX_WARNINGS:
            self._unprinted += 1
            return
        self._seen.add(key)
        if fault.severity is Severity.FAULT:
            warn(str(fault))
        else:
            print_error(f"note: {fault}")

    @contextmanager
    def reading(self, stream: str) -> Iterator[None]:
        """Wraps the reading of one stream. Damage that ends the stream, or a file that can't be read, becomes a
        warning, so that the other streams are still read."""
        try:
            yield
        except (CorruptData, StoreUnavailable) as error:
            self.exit_code = 1
            warn(f"stream {stream}: {error}")

    def close(self) -> None:
        """Print how many faults were only counted."""
        if self._unprinted:
            warn(f"{counted(self._unprinted, 'more fault')}; everlog verify lists all")
            self._unprinted = 0


def print_warnings(faults: Iterable[Fault]) -> None:
    """Print a store's warnings, a line each: what was found, what was expected and what can be done. They do not change
    the exit code."""
    found = list(faults)
    for fault in found[:MAX_WARNINGS]:
        text = f"{fault.file}: {fault.code}: {fault.found}; expected {fault.expected} ({fault.repair})"
        if fault.severity is Severity.FAULT:
            warn(text)
        else:
            print_error(f"note: {text}")
    if len(found) > MAX_WARNINGS:
        warn(f"{len(found) - MAX_WARNINGS} more; --json lists all")
