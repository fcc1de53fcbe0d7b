"""How far a live query is behind, and how fast it goes: from Spark's query progress and a look at the stores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from everlog.errors import EverlogError, UsageError
from everlog.spark.discovery import FoundStore
from everlog.spark.streaming.followers import open_follower
from everlog.spark.streaming.offsets import Offset, from_json
from everlog.stores import family_of, storage_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class StreamProgress(NamedTuple):
    """A stream of a live query: ``at`` is where the query's next record is, ``end`` the stream's end (``None``: it was
    not found). ``bytes_behind`` and ``records_behind`` are what is between them, ``None`` where only reading would
    tell."""

    store: str
    stream: str
    at: str
    end: str | None
    bytes_behind: int | None
    records_behind: int | None


class QueryProgress(NamedTuple):
    """The last batch's rates in rows a second, how many rows it had, how long it took, and each stream."""

    batch_id: int | None
    rows: int
    input_rows_per_s: float
    processed_rows_per_s: float
    duration_ms: int
    streams: list[StreamProgress]

    @property
    def is_behind(self) -> bool:
        """Whether there was something that the query had not read."""
        return any(one.at != one.end for one in self.streams)


def progress(query: StreamingQuery, **options: Any) -> QueryProgress:
    """A query over everlog's stores, by its last progress and the stores' ends now. ``options`` are the families' own,
    with which the stores are opened (see :func:`everlog.open_store`). Raises :class:`UsageError` for a query without
    such a source."""
    return progress_of(_as_json(query.lastProgress), options)


def _as_json(last: Any) -> dict[str, Any]:
    if last is None:
        return {}
    found: dict[str, Any] = dict(last) if isinstance(last, dict) else json.loads(last.json)
    return found


def progress_of(last: dict[str, Any], options: dict[str, Any] | None = None) -> QueryProgress:
    """As :func:`progress`, of a query progress as JSON."""
    streams: list[StreamProgress] = []
    sources = [offset for source in last.get("sources", ()) if (offset := _offset(source)) is not None]
    if last and not sources:
        raise UsageError("query", found="no source of everlog", expected='spark.readStream.format("everlog")')
    for offset in sources:
        for store, marks in offset.marks.items():
            streams += _of_store(store, {name: mark.address for name, mark in marks.items()}, options or {})
    return QueryProgress(
        last.get("batchId"),
        int(last.get("numInputRows") or 0),
        float(last.get("inputRowsPerSecond") or 0),
        float(last.get("processedRowsPerSecond") or 0),
        int((last.get("durationMs") or {}).get("triggerExecution", 0)),
        streams,
    )


def _offset(source: dict[str, Any]) -> Offset | None:
    end = source.get("endOffset")
    try:
        return from_json(json.loads(end) if isinstance(end, str) else end)
    except (EverlogError, ValueError):
        return None


def _of_store(path: str, addresses: dict[str, str], options: dict[str, Any]) -> list[StreamProgress]:
    try:
        follower = open_follower(FoundStore(path, family_of(storage_of(path))), options)
    except EverlogError:
        return [StreamProgress(path, name, at, None, None, None) for name, at in addresses.items()]
    found = []
    try:
        reaches = follower.look()
        for name in sorted(addresses.keys() | reaches.keys()):
            reach = reaches.get(name)
            if reach is None:
                found.append(StreamProgress(path, name, addresses[name], None, None, None))
                continue
            at = addresses.get(name) or follower.format_address(reach.first)
            start = follower.parse_address(at)
            size = follower.byte_count(name, start, reach.end)
            count = follower.record_count(name, start, reach.end)
            found.append(StreamProgress(path, name, at, follower.format_address(reach.end), size, count))
    finally:
        follower.close()
    return found
