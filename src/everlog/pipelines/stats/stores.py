"""What a store reports without a scan: segments on disk, and readers with their lag."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from everlog.core.family.overview import StoreOverview
from everlog.core.family.record import load
from everlog.core.store import Store
from everlog.errors import EverlogError
from everlog.stores import family_named, open_store

if TYPE_CHECKING:
    from everlog.discovery import FoundStore

MAX_STRIP = 48
"""Most entries in a stream's list of segments; if there are more segments, neighbours are added up."""

Row = dict[str, Any]


def describe_store(found: FoundStore, options: dict[str, Any]) -> Row:
    """A store's row: ``streams``, ``segments`` by stream, ``readers``, and ``error`` if it can't be opened or read."""
    row: Row = {
        "store": found.path,
        "family": found.family,
        "error": None,
        "streams": [],
        "segments": [],
        "readers": [],
    }
    try:
        with open_store(found.path, family=found.family, **options) as store:
            row["streams"] = store.stream_names()
            overview = _overview(found.family, store)
            row["segments"] = [_segments(stream, sizes) for stream, sizes in overview.segment_sizes.items()]
            row["readers"] = [asdict(reader) for reader in overview.readers]
    except EverlogError as error:
        row["error"] = str(error)
    return row


def _overview(family: str, store: Store) -> StoreOverview:
    name = family_named(family).overview
    found: StoreOverview = StoreOverview() if name is None else load(name)(store)
    return found


def _segments(stream: str, sizes: list[int]) -> Row:
    step = -(-len(sizes) // MAX_STRIP) or 1
    strip = [sum(sizes[at : at + step]) for at in range(0, len(sizes), step)]
    return {"stream": stream, "files": len(sizes), "bytes": sum(sizes), "strip": strip, "files_in_a_part": step}
