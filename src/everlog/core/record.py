"""One message as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """``address`` finds the record again and orders it within its stream (text form, as on the command line);
    ``fields`` are the family's own (``position``, ``marker``, ``sequence``, ...). ``timestamp_ns`` is nanoseconds
    since 1970, or ``None`` where the family keeps no time.
    """

    stream: str
    address: str
    timestamp_ns: int | None
    payload: bytes
    fields: Mapping[str, Any]
