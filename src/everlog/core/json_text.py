"""Parses JSON from outside: options, notes, manifests, repair plans.

``json.loads`` raises ``RecursionError`` on deep nesting, accepts ``NaN``, and turns ``1e999`` into infinity, which
fails later when it becomes an integer. Here all three are a :class:`ValueError`.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 200
"""Nested arrays and objects. The deepest JSON that everlog writes is messages with groups inside groups."""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text. Raises :class:`ValueError` for invalid JSON, infinite numbers, and nesting beyond
    ``MAX_DEPTH``."""
    try:
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    _check_depth(found)
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


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
