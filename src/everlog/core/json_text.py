"""JSON from outside: options, notes, manifests, plans of repairs.

``json.loads`` raises ``RecursionError`` for what is nested too deeply, takes ``NaN`` and makes infinity of ``1e999``,
which fails where it becomes a whole number. Here all of that is no JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 200
"""Of arrays and objects inside each other. The deepest that everlog writes are messages with groups inside groups."""


def parse_json(text: str | bytes) -> Any:
    """The value. Raises :class:`ValueError` for what is no JSON, for numbers that are infinite, and beyond
    ``MAX_DEPTH``."""
    try:
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    _check_depth(found)
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {text}")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _refuse(text[:40])
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for one in level
            if isinstance(one, list | dict)
            for part in (one if isinstance(one, list) else one.values())
            if isinstance(part, list | dict)
        ]
        if not level:
            return
    raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")
