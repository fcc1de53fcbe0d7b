"""Options are data: one frozen keyword-only dataclass per component, filled and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, TypeVar

from everlog.errors import UsageError

T = TypeVar("T")


def option_names(kind: type) -> frozenset[str]:
    """The names that an options dataclass knows."""
    return frozenset(f.name for f in fields(kind))


def fill(kind: type[T], values: Mapping[str, Any]) -> T:
    """An options object. Raises :class:`UsageError` for a name that it does not know; its ``__post_init__`` checks
    the values.
    """
    known = option_names(kind)
    if unknown := sorted(values.keys() - known):
        raise UsageError("options", found=", ".join(unknown), expected=f"names out of {', '.join(sorted(known))}")
    return kind(**values)


def check_type(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    """Raises :class:`UsageError` for an argument of another type, before anything is done with it."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(name, found=repr(value), expected=expected)
