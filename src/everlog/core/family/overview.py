"""What a store says of itself without a scan: the segments on disk and the readers of its streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """Where one reader of a stream is. ``at`` is an address as text; ``lag_records`` and ``lag_bytes`` are what it has
    not read yet, ``pending`` the messages it was sent and has not acknowledged; ``None`` if the store does not say."""

    stream: str
    reader: str
    kind: str
    at: str
    lag_records: int | None = None
    lag_bytes: int | None = None
    pending: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOverview:
    """``segment_sizes``: the bytes of each segment file, by stream, in the order of their addresses."""

    segment_sizes: Mapping[str, list[int]] = field(default_factory=dict)
    readers: tuple[ReaderState, ...] = ()
