"""The lag and speed of a live query, from Spark's query progress and the stores' current state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from everlog.core.json_text import parse_json
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, UsageError
from everlog.pipelines.follow.followers import open_follower
from everlog.pipelines.follow.offsets import Offset, addresses, from_json
from everlog.stores import StoreOptions, family_of, storage_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class StreamProgress(NamedTuple):
    """A stream of a live query: ``at`` is the address of the query's next record; ``end`` is the stream's end when the
    query last polled it, or its current end if Spark does not report that (``None``: not found). ``bytes_behind`` and
    ``records_behind`` are what is between them, ``None`` if only reading could determine that."""

    store: str
    stream: str
    at: str
    end: str | None
    bytes_behind: int | None
    records_behind: int | None


class QueryProgress(NamedTuple):
    """The last batch's rates in rows per second, its number of rows, its duration, and each stream."""

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


def progress(query: StreamingQuery, **options: Unpack[StoreOptions]) -> QueryProgress:
    """The last progress of a query over everlog's stores: how far it had come, and the ends of the streams that it
    reads. ``options`` are the families' own and open the stores (see :func:`everlog.open_store`) to measure what is
    between. Raises :class:`UsageError` for a query without such a source."""
    return progress_of(_as_json(query.lastProgress), dict(options))


def _as_json(last: Any) -> dict[str, Any]:
    if last is None:
        return {}
    found: dict[str, Any] = dict(last) if isinstance(last, dict) else parse_json(last.json)
    return found


def progress_of(last: dict[str, Any], options: dict[str, Any] | None = None) -> QueryProgress:
    """Like :func:`progress`, for a query progress as JSON."""
    streams: list[StreamProgress] = []
    sources = [
        (offset, _offset(source.get("latestOffset")))
        for source in last.get("sources", ())
        if (offset := _offset(source.get("endOffset"))) is not None
    ]
    if last and not sources:
        message = "the query has no everlog source"
        raise UsageError("query", found="no everlog source", expected="an everlog source", message=message)
    for offset, latest in sources:
        known = addresses(offset.marks)
        ends = None if latest is None else addresses(latest.marks)
        for store in sorted(known.keys() | (ends or {}).keys()):
            store_ends = None if ends is None else ends.get(store, {})
            streams += _of_store(store, known.get(store, {}), store_ends, options or {})
    return QueryProgress(
        last.get("batchId"),
        int(last.get("numInputRows") or 0),
        float(last.get("inputRowsPerSecond") or 0),
        float(last.get("processedRowsPerSecond") or 0),
        int((last.get("durationMs") or {}).get("triggerExecution", 0)),
        streams,
    )


def _offset(found: Any) -> Offset | None:
    try:
        return from_json(parse_json(found) if isinstance(found, str) else found)
    except (EverlogError, ValueError):
        return None


def _of_store(
    path: str, known: Mapping[str, str], ends: Mapping[str, str] | None, options: dict[str, Any]
) -> list[StreamProgress]:
    """``known``: how far the query has come; ``ends``: the streams that it reads, and up to which address, according to
    its options ``stream`` and ``end``."""
    try:
        follower = open_follower(FoundStore(path, family_of(storage_of(path))), options)
    except EverlogError:
        return [StreamProgress(path, name, at, None, None, None) for name, at in known.items()]
    found = []
    try:
        extents = follower.poll()
        for name in sorted(known.keys() | (extents if ends is None else ends).keys()):
            extent = extents.get(name)
            if extent is None:
                if name in known:
                    found.append(StreamProgress(path, name, known[name], None, None, None))
                continue
            if ends is not None and name not in ends:
                continue  # only read before a restart with other options
            at = known.get(name) or follower.format_address(extent.first)
            start = follower.parse_address(at)
            end = extent.end if ends is None else min(follower.parse_address(ends[name]), extent.end)
            size = follower.byte_count(name, start, end)
            count = follower.record_count(name, start, end)
            found.append(StreamProgress(path, name, at, follower.format_address(end), size, count))
    finally:
        follower.close()
    return found
