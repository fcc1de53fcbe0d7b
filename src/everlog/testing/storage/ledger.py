"""Records what a test appended to a journal and what was acknowledged, to compare with what is read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from everlog.errors import EverlogError


class Appending(Protocol):
    """A writer that appends messages."""

    def append(self, payload: Any) -> Any: ...
    def append_many(self, payloads: Sequence[Any]) -> Any: ...


class Ledger:
    """Distinct payloads in the order in which they were appended. ``errors`` holds the errors that appends raised."""

    def __init__(self) -> None:
        self.errors: list[EverlogError] = []
        self._numbers: dict[bytes, int] = {}
        self._acknowledged: set[bytes] = set()

    def copy(self) -> Ledger:
        """Return a copy of the current state."""
        new = Ledger()
        new.errors = list(self.errors)
        new._numbers, new._acknowledged = dict(self._numbers), set(self._acknowledged)
        return new

    def give(self, payload: bytes) -> None:
        """Note a payload that is about to be appended."""
        assert payload not in self._numbers, "a payload was appended before"
        self._numbers[payload] = len(self._numbers)

    def acknowledge(self, payload: bytes) -> None:
        """Note that the append returned."""
        self._acknowledged.add(payload)

    def append(self, writer: Appending, payload: bytes) -> bool:
        """Append a payload and note whether it was acknowledged; return ``False`` after an error."""
        self.give(payload)
        try:
            writer.append(payload)
        except EverlogError as error:
            self.errors.append(error)
            return False
        self.acknowledge(payload)
        return True

    def append_many(self, writer: Appending, payloads: Sequence[bytes]) -> bool:
        """Append payloads and note which were acknowledged; return ``False`` after an error."""
        for payload in payloads:
            self.give(payload)
        done = len(payloads)
        try:
            writer.append_many(payloads)
        except EverlogError as error:
            self.errors.append(error)
            done = getattr(error, "appended", 0)
        for payload in payloads[:done]:
            self.acknowledge(payload)
        return done == len(payloads)

    @property
    def acknowledged(self) -> list[bytes]:
        """The acknowledged payloads, in the order of their appends."""
        return sorted(self._acknowledged, key=self._numbers.__getitem__)

    def complaints(self, found: Iterable[bytes], *, once: bool = True, must_hold: bool = True) -> list[str]:
        """Return what is wrong with the payloads that were read: unknown payloads, a wrong order, duplicates (with
        ``once``), missing acknowledged payloads (with ``must_hold``). Appended payloads that were not acknowledged may
        be there or not."""
        wrong = []
        numbers = []
        for payload in found:
            if payload in self._numbers:
                numbers.append(self._numbers[payload])
            else:
                wrong.append(f"invented: {_short(payload)}")
        first = list(dict.fromkeys(numbers))
        if once and len(first) < len(numbers):
            wrong.append(f"twice: {sorted({n for n in first if numbers.count(n) > 1})}")
        if first != sorted(first):
            wrong.append(f"wrong order: {first}")
        if must_hold:
            there = set(first)
            wrong += [f"lost: {_short(p)}" for p in self.acknowledged if self._numbers[p] not in there]
        return wrong


def _short(payload: bytes) -> str:
    return f"{payload[:24]!r} ({len(payload)} bytes)"
