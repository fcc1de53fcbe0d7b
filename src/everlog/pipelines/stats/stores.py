"""What a store tells of itself without a scan: segments on disk, and readers with how far they are behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everlog.core.store import Store
from everlog.errors import EverlogError
from everlog.stores import open_store

if TYPE_CHECKING:
    from everlog.discovery import FoundStore

MAX_STRIP = 48
"""Segments that a stream's row lists one by one; of more, neighbours are put together."""
_RECORDING = re.compile(r"(\d+)-(-?\d*).*\.rec$")

Row = dict[str, Any]


def describe_store(found: FoundStore, options: dict[str, Any]) -> Row:
    """A store's row: ``error`` where it can't be opened, ``segments`` by stream, ``readers``."""
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
            info = store.info() if found.family in _READERS or found.family in _FILES else {}
            files = _FILES.get(found.family, _no_files)(store, info)
            row["segments"] = [_segments(stream, sizes) for stream, sizes in files.items()]
            row["readers"] = list(_READERS.get(found.family, _no_readers)(info))
    except EverlogError as error:
        row["error"] = str(error)
    return row


def _segments(stream: str, sizes: list[int]) -> Row:
    step = -(-len(sizes) // MAX_STRIP) or 1
    strip = [sum(sizes[at : at + step]) for at in range(0, len(sizes), step)]
    return {"stream": stream, "files": len(sizes), "bytes": sum(sizes), "strip": strip, "files_in_a_part": step}


def _archive_files(store: Store, info: Row) -> dict[str, list[int]]:
    found: dict[str, list[tuple[int, str, int]]] = {}
    for entry in store.storage.entries():
        match = _RECORDING.match(entry.name) if entry.is_file else None
        if match:
            # Older releases name files by more than a position: then the order is that of the names.
            number = int(match[2]) if match[2].lstrip("-") else 0
            found.setdefault(match[1], []).append((number, entry.name, entry.size))
    return {stream: [size for _, _, size in sorted(files)] for stream, files in sorted(found.items())}


def _journal_files(store: Store, info: Row) -> dict[str, list[int]]:
    return {"journal": [segment["bytes"] or 0 for segment in info["segments"]]}


def _channel_files(store: Store, info: Row) -> dict[str, list[int]]:
    return {
        name: [(one["dat_size"] or 0) + (one["idx_size"] or 0) for one in channel["slices"]]
        for name, channel in info["channels"].items()
    }


def _no_files(store: Store, info: Row) -> dict[str, list[int]]:
    return {}


def _journal_readers(info: Row) -> Iterator[Row]:
    for one in info["subscribers"]:
        yield {
            "stream": "journal",
            "reader": one["name"],
            "kind": "transient subscriber" if one["transient"] else "subscriber",
            "at": one["checkpoint"],
            "lag_records": one["lag_messages"],
            "lag_bytes": one["lag_bytes"],
            "pending": None,
        }


def _channel_readers(info: Row) -> Iterator[Row]:
    for name, channel in info["channels"].items():
        last = channel["last_sequence"]
        for one in channel["subscriptions"]:
            yield {
                "stream": name,
                "reader": one["durable_name"] or one["qgroup"] or one["client_id"],
                "kind": one["kind"],
                "at": str(one["last_sent"]),
                "lag_records": None if last is None else max(last - one["last_sent"], 0),
                "lag_bytes": None,
                "pending": len(one["pending"]),
            }


def _no_readers(info: Row) -> Iterator[Row]:
    return iter(())


_FILES = {"aeron-archive": _archive_files, "jlog": _journal_files, "nats-streaming": _channel_files}
_READERS = {"jlog": _journal_readers, "nats-streaming": _channel_readers}
