"""Archives that the verbs are tried on, and what is in them."""

from __future__ import annotations

from typing import Any

OLD = "archive-old-releases/"


MARK = "archive-mark.dat"


def contents(storage: Any) -> dict[str, bytes]:
    return {name: storage.read_all(name) for name in storage.names()}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
