"""Limits what is drawn: statistics of any size become a bounded number of streams, time ranges and cells."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_ROWS = 24
"""Most streams in a chart; those with the most bytes are drawn."""
MAX_CELLS = 120
"""Most cells in a row."""
MAX_ERAS = 6
HOLE_SHARE = 0.2
"""A chart is split in two at a stretch without records that is longer than this share of its time range."""
MAX_SPANS = 20_000
"""Resolution of the search for holes."""
MAX_LABEL = 44

Row = dict[str, Any]
Key = tuple[str, str]


@dataclass(slots=True)
class Era:
    """A time range in which streams have records: its bounds in nanoseconds, the streams drawn, the number of streams
    left out, and the cells, each ``cell_ns`` wide."""

    start_ns: int
    end_ns: int
    cell_ns: int
    streams: list[Row]
    left_out: int
    cells: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cells:
    """What is drawn: time ranges, the streams without times (and how many of them are left out), and those streams'
    cells by position."""

    eras: list[Era]
    timeless: list[Row]
    left_out: int
    positions: list[Row]


def key_of(row: Row) -> Key:
    """The store and stream that a row is about."""
    return row["store"], row["stream"]


def labels(streams: Iterable[Row]) -> dict[Key, str]:
    """Short names: the stream, preceded by as much of the store's path as distinguishes the stores."""
    keys = sorted({key_of(row) for row in streams})
    stores = sorted({store for store, _ in keys})
    base = os.path.commonpath(stores) if len(stores) > 1 and len({"://" in s for s in stores}) == 1 else ""
    short = {store: store.removeprefix(base).strip("/") or os.path.basename(store.rstrip("/")) for store in stores}
    if len(stores) == 1:
        short = {stores[0]: ""}
    found = {}
    for store, stream in keys:
        found[store, stream] = cut(short[store], stream)
    again = Counter(found.values())
    taken: Counter[str] = Counter()
    for key, label in found.items():
        if again[label] > 1:
            taken[label] += 1
            found[key] = f"{label} ({taken[label]})"
    return found


def cut(store: str, stream: str) -> str:
    """``store / stream`` in at most :data:`MAX_LABEL` characters; the store is shortened from its beginning."""
    stream = stream if len(stream) <= MAX_LABEL // 2 else stream[: MAX_LABEL // 2 - 1] + "…"
    room = MAX_LABEL - len(stream) - 3
    if not store:
        return stream
    return f"{store if len(store) <= room else '…' + store[-room + 1 :]} / {stream}"


def largest(streams: Iterable[Row], count: int = MAX_ROWS) -> tuple[list[Row], int]:
    """The streams with the most bytes, in their original order, and the number of the others."""
    rows = list(streams)
    chosen = sorted(range(len(rows)), key=lambda n: (-rows[n]["bytes"], n))[:count]
    return [rows[n] for n in sorted(chosen)], len(rows) - len(chosen)


def cut_holes(spans: list[tuple[int, int]], most: int = MAX_ERAS) -> list[tuple[int, int]]:
    """At most ``most`` ranges that cover all spans (given sorted). They are cut at the holes that are longest relative
    to the range they split."""
    merged: list[list[int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    parts = [merged]
    while len(parts) < most:
        best: tuple[float, int, int] | None = None
        for number, part in enumerate(parts):
            whole = part[-1][1] - part[0][0]
            for at in range(1, len(part)):
                share = (part[at][0] - part[at - 1][1]) / whole
                if share > HOLE_SHARE and (best is None or share > best[0]):
                    best = share, number, at
        if best is None:
            break
        _, number, at = best
        parts[number : number + 1] = [parts[number][:at], parts[number][at:]]
    return [(part[0][0], part[-1][1]) for part in parts]
