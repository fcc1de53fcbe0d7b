"""A message as readers get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One message. ``address`` identifies the record and orders it within its stream (as text, as on the command line);
    ``fields`` are the family's own (``position``, ``marker``, ``sequence``, ...). ``timestamp_ns`` is nanoseconds since
    1970, ``None`` if the family records no time."""

    stream: str
    address: str
    timestamp_ns: int | None
    payload: bytes
    fields: Mapping[str, Any]
