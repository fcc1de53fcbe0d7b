"""What a test gave to a journal, and what of it was acknowledged: to be compared with what is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from everlog.errors import EverlogError


class Appending(Protocol):
    """What messages are given to: a writer."""

    def append(self, payload: Any) -> Any: ...
    def append_many(self, payloads: Sequence[Any]) -> Any: ...


class Ledger:
    """Payloads in the order in which they were given, each of them another one. ``errors`` are those that were
    raised."""

    def __init__(self) -> None:
        self.errors: list[EverlogError] = []
        self._numbers: dict[bytes, int] = {}
        self._acknowledged: set[bytes] = set()

    def copy(self) -> Ledger:
        """As it is now."""
        new = Ledger()
        new.errors = list(self.errors)
        new._numbers, new._acknowledged = dict(self._numbers), set(self._acknowledged)
        return new

    def give(self, payload: bytes) -> None:
        """Note a payload that is about to be appended."""
        assert payload not in self._numbers, "each payload is another one"
        self._numbers[payload] = len(self._numbers)

    def acknowledge(self, payload: bytes) -> None:
        """Note that the append returned."""
        self._acknowledged.add(payload)

    def append(self, writer: Appending, payload: bytes) -> bool:
        """Append, and note what became of it; False for an error."""
        self.give(payload)
        try:
            writer.append(payload)
        except EverlogError as error:
            self.errors.append(error)
            return False
        self.acknowledge(payload)
        return True

    def append_many(self, writer: Appending, payloads: Sequence[bytes]) -> bool:
        """Append, and note what became of them; False for an error."""
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
        """In order."""
        return sorted(self._acknowledged, key=self._numbers.__getitem__)

    def complaints(self, found: Iterable[bytes], *, once: bool = True, must_hold: bool = True) -> list[str]:
        """What is wrong with the payloads that were read: acknowledged ones that are missing (``must_hold``), ones that
        nobody gave, a wrong order; ``once``: ones that are there twice. Those that were given and not acknowledged may
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
            wrong.append(f"in the order {first}")
        if must_hold:
            there = set(first)
            wrong += [f"lost: {_short(p)}" for p in self.acknowledged if self._numbers[p] not in there]
        return wrong


def _short(payload: bytes) -> str:
    return f"{payload[:24]!r} ({len(payload)} bytes)"
