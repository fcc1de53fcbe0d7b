"""Options are data: one frozen keyword-only dataclass per component, filled and checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, TypeVar

from everlog.errors import UsageError, WrongType

T = TypeVar("T")
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1
MAX_NUMBER_TEXT = 100
"""Longest text of a number in characters, including spaces: 64 bits in binary take 66."""
_PREFIXES = ("0x", "0o", "0b")


def option_names(kind: type) -> frozenset[str]:
    """The option names of an options dataclass."""
    return frozenset(f.name for f in fields(kind))


def fill(kind: type[T], values: Mapping[str, Any]) -> T:
    """Create an options object. Raises :class:`UsageError` for an unknown name; the class's ``__post_init__`` checks
    the values."""
    known = option_names(kind)
    if unknown := sorted(values.keys() - known):
        expected = f"known: {', '.join(sorted(known))}" if known else "there are none"
        what = "option" if len(unknown) == 1 else "options"
        found = ", ".join(map(repr, unknown))
        raise UsageError("options", found=found, expected=expected, message=f"unknown {what} {found}; {expected}")
    return kind(**values)


def whole_number(name: str, text: str, least: int = MIN_INT64, most: int = MAX_INT64) -> int:
    """Parse an option's text, decimal or prefixed as ``0x1f``. Raises :class:`UsageError` if it is not a whole number
    from ``least`` to ``most``."""
    expected = "a whole number" if (least, most) == (MIN_INT64, MAX_INT64) else f"a whole number from {least} to {most}"
    base = 0 if text.strip().lstrip("+-")[:2].lower() in _PREFIXES else 10
    try:
        number = int(text, base) if len(text) <= MAX_NUMBER_TEXT else None
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise UsageError(name, found=repr(text), expected=expected)
    return number


def one_of(choices: Iterable[str]) -> str:
    """The allowed texts as a sentence lists them: ``'a', 'b' or 'c'``."""
    *others, last = (f"'{text}'" for text in choices)
    return f"{', '.join(others)} or {last}" if others else last


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise :class:`UsageError` if an argument is not one of the allowed texts; for a ``Literal`` alias, those are its
    ``get_args``."""
    allowed = tuple(choices)
    if value not in allowed:
        raise UsageError(name, found=repr(value), expected=one_of(allowed))


def check_type(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    """Raise :class:`WrongType` if an argument has another type. Call it before acting on the argument."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise WrongType(name, found=repr(value), expected=expected)
