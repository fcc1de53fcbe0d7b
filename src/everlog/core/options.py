"""Options are data: one frozen keyword-only dataclass per component, filled and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, TypeVar

from everlog.errors import UsageError, WrongType

T = TypeVar("T")
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1
MAX_NUMBER_TEXT = 100
"""Characters of a number, spaces counted: 64 bits in binary are 66."""
_PREFIXES = ("0x", "0o", "0b")


def option_names(kind: type) -> frozenset[str]:
    """The names that an options dataclass knows."""
    return frozenset(f.name for f in fields(kind))


def fill(kind: type[T], values: Mapping[str, Any]) -> T:
    """An options object. Raises :class:`UsageError` for a name that it does not know; its ``__post_init__`` checks
    the values.
    """
    known = option_names(kind)
    if unknown := sorted(values.keys() - known):
        expected = f"known: {', '.join(sorted(known))}" if known else "there are none"
        what = "option" if len(unknown) == 1 else "options"
        found = ", ".join(map(repr, unknown))
        raise UsageError("options", found=found, expected=expected, message=f"unknown {what} {found}; {expected}")
    return kind(**values)


def whole_number(name: str, text: str, least: int = MIN_INT64, most: int = MAX_INT64) -> int:
    """Of an option's text, decimal or such as ``0x1f``. Raises :class:`UsageError` for what is none, and for one beyond
    ``least`` and ``most``."""
    expected = "a whole number" if (least, most) == (MIN_INT64, MAX_INT64) else f"a whole number from {least} to {most}"
    base = 0 if text.strip().lstrip("+-")[:2].lower() in _PREFIXES else 10
    try:
        number = int(text, base) if len(text) <= MAX_NUMBER_TEXT else None
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise UsageError(name, found=repr(text), expected=expected)
    return number


def check_type(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    """Raises :class:`WrongType` for an argument of another type, before anything is done with it."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise WrongType(name, found=repr(value), expected=expected)
