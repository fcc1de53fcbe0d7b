"""Parses Spark's options, which are case-insensitive texts, into one checked object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from everlog.core.columns import ColumnType
from everlog.core.json_text import parse_json
from everlog.core.option_kinds import choice, read_bytes, read_flag, read_seconds, read_text
from everlog.core.options import whole_number
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, as_level
from everlog.discovery import MAX_PATTERN
from everlog.errors import UsageError
from everlog.pipelines.scan.aggregation import Aggregation, parse_aggregation
from everlog.pipelines.scan.bounds import NO_BOUNDS, Bounds, bounded_times
from everlog.pipelines.scan.live_options import parse_starting
from everlog.sbe import Schema, load_schema
from everlog.sbe.times import PREFIX
from everlog.stores import store_options

OnFault = Literal["fail", "skip"]
"""What a query does at damage: raise an error, or leave out what is damaged."""
FAIL: Final = "fail"
SKIP: Final = "skip"
DECIMAL, BIGINT = "decimal", "bigint"
TIMESTAMP_FROM = "timestamp_from"
"""Field of the options of families in which an option says where a record's time is; their streams' own times do not
apply."""
DEFAULT_SLACK_NS = 600 * 10**9
"""Ten minutes: how far the times of neighbouring segments are trusted."""
MIN_SPLIT_BYTES = 1 << 16
_PASSWORD = re.compile(r"://[^/@:]*:(?!\d+(?:/|$))[^@]+@")
"""A password may contain slashes; a number before a slash is a port, and an ``@`` may follow in the path."""
_FRACTION = re.compile(r"(?:(?<=\d:\d\d:\d\d)|(?<=[T ]\d{6}))[.,](\d+)")
"""A fraction of a second, after ``10:00:00`` or ``T100000``. ISO 8601 also has fractions of minutes and hours; they are
refused."""
_DATE_AND_TIME = re.compile(r"[0-9W-]{7,10}(?:[T ][^.,]+)?")
"""Stricter than Python, which accepts any character between date and time, ``2024-05-01.10`` for ten o'clock, and
ignores fractions of a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a query asks for. ``streams`` are names or glob patterns, none means all; ``start`` and ``end`` are
    addresses as text, ``end`` exclusive; ``start_ns`` and ``end_ns`` are the same for time, and ``slack_ns`` is how far
    clocks may have been set back. ``columns`` are names, ``None`` means the default ones. ``sbe_schema`` decodes
    payloads, ``sbe_message`` names the message that gets typed columns, ``sbe_only`` leaves out all other records,
    ``sbe_uint64`` is the type of its unsigned 64-bit numbers.

    ``family_options`` go to the stores whose family knows them, ``live_options`` to live queries. ``partitions`` is the
    number of tasks, ``None`` for a number that suits the size. ``push_filters``: filters of the query become
    ``bounds``. ``faults``: the table is of faults, not of records; ``aggregation``: of groups.
    """

    paths: tuple[str, ...]
    family: str | None = None
    streams: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    slack_ns: int = DEFAULT_SLACK_NS
    level: Level = Level.RECORD
    columns: tuple[str, ...] | None = None
    include_all: bool = False
    fail_on_data_loss: bool = True
    on_fault: OnFault = FAIL
    split_bytes: int = DEFAULT_SPLIT_BYTES
    partitions: int | None = None
    sbe_schema: Schema | None = None
    sbe_message: str | None = None
    sbe_only: bool = False
    sbe_uint64: ColumnType = ColumnType.UINT64
    push_filters: bool = False
    bounds: Bounds = NO_BOUNDS
    faults: bool = False
    aggregation: Aggregation | None = None
    family_options: Mapping[str, Any] = field(default_factory=dict)
    live_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_time_range(self) -> bool:
        """Whether records are selected by their time."""
        return self.start_ns is not None or self.end_ns is not None


def _names(name: str, value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in read_text(name, value).split(",") if part.strip())
    if not names:  # an empty selection would mean all of them
        raise UsageError(name, found=repr(value), expected="a name, or several separated by commas")
    if (longest := max(map(len, names))) > MAX_PATTERN:
        raise UsageError(name, found=f"a name of {longest} characters", expected=f"at most {MAX_PATTERN}")
    return names


def _count(name: str, value: str) -> int:
    return whole_number(name, value, 1)


def _bytes_or_none(name: str, value: str) -> int:
    return read_bytes(name, value, 0)


def _split_bytes(name: str, value: str) -> int:
    return read_bytes(name, value, MIN_SPLIT_BYTES)


def _time(name: str, value: str) -> int:
    """Nanoseconds since 1970 of an ISO 8601 time (UTC if it has no zone) or of such a number."""
    text = value.strip()
    if re.fullmatch(r"-?\d{9,19}", text):
        return int(text)
    fraction = _FRACTION.search(text)
    digits = fraction[1] if fraction else ""
    try:
        whole = _FRACTION.sub("", text, count=1)
        if len(digits) > 9 or not _DATE_AND_TIME.fullmatch(whole):
            raise ValueError(text)
        moment = datetime.fromisoformat(whole)
    except ValueError:
        expected = "a time such as 2024-05-01T10:00:00Z, or nanoseconds since 1970"
        raise UsageError(name, found=repr(value), expected=expected) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + int(digits.ljust(9, "0"))


def _duration(name: str, value: str) -> int:
    return round(read_seconds(name, value) * 10**9)


def _level(name: str, value: str) -> Level:
    return as_level(value.strip().lower())


def _schema(name: str, value: str) -> Schema:
    """Read when the query is planned: tasks get the schema, not the file."""
    return load_schema(read_text(name, value))


def _uint64(name: str, value: str) -> ColumnType:
    chosen = choice(DECIMAL, BIGINT).read(name, value)
    return ColumnType.INT64 if chosen == BIGINT else ColumnType.UINT64


SCAN_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "family": ("family", read_text),
    "stream": ("streams", _names),
    "start": ("start", read_text),
    "end": ("end", read_text),
    "startTime": ("start_ns", _time),
    "endTime": ("end_ns", _time),
    "timeSlack": ("slack_ns", _duration),
    "level": ("level", _level),
    "columns": ("columns", _names),
    "includeAll": ("include_all", read_flag),
    "failOnDataLoss": ("fail_on_data_loss", read_flag),
    "onFault": ("on_fault", choice(*get_args(OnFault)).read),
    "splitBytes": ("split_bytes", _split_bytes),
    "partitions": ("partitions", _count),
    "sbeSchema": ("sbe_schema", _schema),
    "sbeMessage": ("sbe_message", read_text),
    "sbeOnly": ("sbe_only", read_flag),
    "sbeUint64": ("sbe_uint64", _uint64),
    "pushFilters": ("push_filters", read_flag),
    "faults": ("faults", read_flag),
    "aggregate": ("aggregation", parse_aggregation),
}
"""Option of the data source -> field of :class:`ScanOptions`, and the reader of its text."""

FAMILY_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    option.spark: (option.field, option.kind.read) for option in store_options() if option.spark is not None
}
"""Option of the data source -> field of a family's options class, from the families' records."""

LIVE_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "maxBytesPerTrigger": ("max_bytes", read_bytes),
    "maxRecordsPerTrigger": ("max_records", _count),
    "startingOffsets": ("starting", parse_starting),
    "discoveryInterval": ("discovery_s", read_seconds),
    "prefetchBytes": ("prefetch_bytes", _bytes_or_none),
}
"""Option of the data source, for ``readStream`` -> field of :class:`~everlog.pipelines.scan.live_options.LiveOptions`,
and the reader of its text."""

TABLE_PROPERTIES = frozenset({"owner", "provider"})
"""What Spark's catalog adds to the options of ``CREATE TABLE``."""

OPTION_NAMES = ("path", "paths", *SCAN_OPTIONS, *FAMILY_OPTIONS, *LIVE_OPTIONS)


def parse_options(options: Mapping[str, str]) -> ScanOptions:
    """Parse Spark's options. Raises :class:`UsageError` for an unknown option, a wrong value, no path, or a key in
    plain text."""
    given = {name.lower(): value for name, value in options.items()}
    if "encryptionkey" in given:
        raise UsageError(
            "option encryptionKey",
            found="a key in plain text",
            expected="encryptionKeyFile or encryptionKeyEnv",
            message="option encryptionKey is refused; use encryptionKeyFile or encryptionKeyEnv",
            hint="options show in query plans and logs",
        )
    known = {name.lower() for name in OPTION_NAMES}
    if given.keys() >= TABLE_PROPERTIES:
        raise UsageError(
            "CREATE TABLE",
            found="USING everlog",
            expected="CREATE TEMPORARY VIEW ... USING everlog OPTIONS (path '...')",
            message="CREATE TABLE ... USING everlog does not work; use CREATE TEMPORARY VIEW ... USING everlog OPTIONS "
            "(path '...')",
            hint="Spark passes no options to a Python data source when it reads a table of its catalog",
        )
    if unknown := sorted(name for name in options if name.lower() not in known):
        what, known_names = "option" if len(unknown) == 1 else "options", ", ".join(OPTION_NAMES)
        message = f"unknown {what} {', '.join(unknown)}; known: {known_names}"
        raise UsageError("options", found=", ".join(unknown), expected=f"names out of {known_names}", message=message)
    for name, value in given.items():
        if name != "paths":  # a list, whose items are checked individually
            _check_secret(f"option {name}" if name != "path" else name, value)
    paths = _paths(given)
    family_options = _parse(given, FAMILY_OPTIONS)
    chosen = _parse(given, SCAN_OPTIONS)
    chosen["start_ns"], chosen["end_ns"] = bounded_times(chosen.get("start_ns"), chosen.get("end_ns"))
    scan = ScanOptions(
        paths=paths,
        **chosen,
        family_options=family_options,
        live_options=_parse(given, LIVE_OPTIONS),
    )
    if scan.sbe_message is not None and scan.sbe_schema is None:
        raise UsageError("option sbeMessage", found="no sbeSchema", message="option sbeMessage needs sbeSchema")
    if scan.sbe_only and scan.sbe_message is None:
        raise UsageError("option sbeOnly", found="no sbeMessage", message="option sbeOnly needs sbeMessage")
    if scan.sbe_uint64 is not ColumnType.UINT64 and scan.sbe_message is None:
        raise UsageError("option sbeUint64", found="no sbeMessage", message="option sbeUint64 needs sbeMessage")
    times_only = scan.sbe_message is None and family_options.get(TIMESTAMP_FROM, "").startswith(PREFIX)
    if scan.sbe_schema is not None and scan.level is Level.FRAME and not times_only:
        raise UsageError(
            "option sbeSchema",
            found="level frame",
            expected="level record",
            message="option sbeSchema needs level record: a frame may be a fragment of a message",
        )
    if scan.sbe_schema is not None and family_options.get(TIMESTAMP_FROM, "").startswith(PREFIX):
        family_options["sbe_schema"] = scan.sbe_schema
    return scan


def check_batch(scan: ScanOptions) -> None:
    """Raise :class:`UsageError` for the start of a live query: ignoring it silently would give other records than asked
    for. Live options that limit batches are ignored, so that ``read`` and ``readStream`` can share their options."""
    if "starting" in scan.live_options:
        raise UsageError(
            "option startingOffsets",
            found="read",
            expected="readStream",
            message="option startingOffsets applies to readStream only",
            hint="start and end select what read returns",
        )


def _parse(given: Mapping[str, str], table: Mapping[str, tuple[str, Callable[[str, str], Any]]]) -> dict[str, Any]:
    return {field: read(name, given[name.lower()]) for name, (field, read) in table.items() if name.lower() in given}


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """``load(one)`` passes ``path``, ``load([several])`` passes ``paths``, a JSON list."""
    found = [given["path"]] if given.get("path", "").strip() else []
    if "paths" in given:
        try:
            several = parse_json(given["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
            # Do not show the value: it may contain a password.
            raise UsageError(
                "paths", found="another value", expected="a JSON list of paths", hint="for one path use load(path)"
            )
        found += several
    if not found:
        raise UsageError(
            "path",
            found="none",
            expected="a store, a folder of stores, a pattern or a list",
            message="path is missing: load(path), with a store, a folder of stores, a pattern or a list",
        )
    for path in found:
        _check_secret("path", path)
    return tuple(found)


def _check_secret(name: str, value: str) -> None:
    """Raise :class:`UsageError` for a URL with a password."""
    # Cut after the last "@": this keeps the search linear.
    if _PASSWORD.search(value[: value.rfind("@") + 1]):
        raise UsageError(
            name,
            found="a password in a URL",
            expected="a URL without one",
            message=f"{name} has a password in a URL",
            hint="paths show in plans, logs and results; put the password into fsspec's settings",
        )
