"""An export's manifest: what was exported of each stream, and the files that hold it. Encoding and decisions, no I/O.

A stream's ranges are half-open ranges of addresses, as integers: every record of the stream whose address is in one of
them has been exported and is in the stream's files exactly once. A file's CRC-32 covers all its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from everlog.core.json_text import parse_json
from everlog.errors import CorruptData, UnsupportedVersion

NAME = "everlog-export"
VERSION = 1
FOREVER = 1 << 64
"""Greater than every address."""

Range = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """An exported file. ``path`` is relative to the export's folder; ``first`` and ``last`` are addresses as text."""

    path: str
    rows: int
    byte_count: int
    crc32: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Identifies a stream: its store's path and its name."""

    store: str
    stream: str


@dataclass(frozen=True, slots=True)
class ExportedStream:
    """What is exported of a stream. ``resume`` is the lowest possible address of the record after the last exported
    one; ``last`` describes the last one, so that another stream under the same name is noticed. ``fault_count`` counts
    the damage that was skipped."""

    family: str
    ranges: tuple[Range, ...] = ()
    files: tuple[ExportedFile, ...] = ()
    fault_count: int = 0
    resume: int | None = None
    last: Mapping[str, Any] | None = None

    @property
    def row_count(self) -> int:
        """The number of records in its files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Placing:
    """Files of the last commit, renamed after it: pairs of a staged name and a path."""

    staging: str
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest. ``query``: what determines the rows and columns, the same in all runs. ``columns``: name and Spark
    type of each column in the files."""

    kind: str
    query: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]
    generation: int = 0
    streams: Mapping[StreamKey, ExportedStream] = field(default_factory=dict)
    placing: Placing = Placing("")

    @property
    def file_count(self) -> int:
        """The number of files of all streams."""
        return sum(len(stream.files) for stream in self.streams.values())


def united(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same addresses in the fewest ranges, in order.

    >>> united([(5, 9), (0, 3), (3, 5), (20, 20)]) ((0, 9),)
    """
    found: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return tuple(found)


def missing(ranges: Iterable[Range], start: int = 0, end: int = FOREVER) -> tuple[Range, ...]:
    """The parts of ``start`` to ``end`` that are in none of the ranges.

    >>> missing([(3, 5), (9, 12)], 0, 10) ((0, 3), (5, 9))
    """
    found = []
    for low, high in united(ranges):
        if start < min(low, end):
            found.append((start, min(low, end)))
        start = max(start, high)
    if start < end:
        found.append((start, end))
    return tuple(found)


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON, one stream per line."""
    head = {
        "format": NAME,
        "version": VERSION,
        "generation": manifest.generation,
        "kind": manifest.kind,
        "query": dict(manifest.query),
        "columns": [list(column) for column in manifest.columns],
        "placing": asdict(manifest.placing),
    }
    lines = [
        json.dumps(
            {
                "store": key.store,
                "stream": key.stream,
                **asdict(replace(stream, last=stream.last and dict(stream.last))),
            }
        )
        for key, stream in sorted(manifest.streams.items(), key=lambda item: (item[0].store, item[0].stream))
    ]
    return (json.dumps(head)[:-1] + ', "streams": [\n' + ",\n".join(lines) + "\n]}\n").encode("ascii")


def decode(data: bytes, where: str) -> Manifest:
    """Parse a manifest. Raises :class:`CorruptData` if it is not one, :class:`UnsupportedVersion` for a later
    version's."""
    try:
        head = parse_json(data)
    except ValueError as error:
        raise _damaged(where, f"no valid JSON: {error}") from error
    try:
        if head["format"] != NAME:
            raise _Unfit(f"format {head['format']!r}")
        if head["version"] != VERSION:
            raise UnsupportedVersion(where, found=f"version {head['version']}", expected=f"version {VERSION}")
        streams = {StreamKey(_of(str, one["store"]), _of(str, one["stream"])): _stream(one) for one in head["streams"]}
        placing = Placing(head["placing"]["staging"], tuple((a, b) for a, b in head["placing"]["files"]))
        paths = [file.path for stream in streams.values() for file in stream.files]
        for path in (placing.staging, *(name for both in placing.files for name in both), *paths):
            if _of(str, path).startswith("/") or ".." in path.split("/") or "\0" in path:
                raise _Unfit(f"the name {path!r}, which leads out of the folder")
        return Manifest(
            kind=_of(str, head["kind"]),
            query=_of(dict, head["query"]),
            columns=tuple((_of(str, name), _of(str, kind)) for name, kind in head["columns"]),
            generation=int(head["generation"]),
            streams=streams,
            placing=placing,
        )
    except _Unfit as error:
        raise _damaged(where, str(error)) from error
    except KeyError as error:
        raise _damaged(where, f"no {error}") from error
    except (ValueError, TypeError) as error:
        raise _damaged(where, "JSON of another form") from error


class _Unfit(ValueError):
    """What was found instead of a value of a manifest."""


def _damaged(where: str, found: str) -> CorruptData:
    hint = "the file is damaged or not everlog's: restore it, or export to another folder"
    return CorruptData(where, found=found[:200], expected="a manifest of everlog's export", hint=hint)


def _stream(one: Mapping[str, Any]) -> ExportedStream:
    last = None if one["last"] is None else _of(dict, one["last"])
    if last is not None:
        _of(int, last["address"])
    return ExportedStream(
        _of(str, one["family"]),
        tuple((_of(int, a), _of(int, b)) for a, b in one["ranges"]),
        tuple(_file(**file) for file in one["files"]),
        _of(int, one["fault_count"]),
        None if one["resume"] is None else _of(int, one["resume"]),
        last,
    )


def _file(path: str, rows: int, byte_count: int, crc32: int, first: str, last: str) -> ExportedFile:
    return ExportedFile(
        _of(str, path), _of(int, rows), _of(int, byte_count), _of(int, crc32), _of(str, first), _of(str, last)
    )


def _of(kind: type[T], value: Any) -> T:
    """Return ``value`` if it has exactly that type: a bool is not a count. Raises :class:`_Unfit`."""
    if type(value) is not kind:
        raise _Unfit(f"{value!r} instead of a value of type {kind.__name__}")
    return value
