"""Plans an export: for each stream, the splits of the addresses that are not exported yet, and what is exported once
some of them are done."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everlog.core.columns import Column, ColumnType
from everlog.core.options import option_names
from everlog.core.report import Fault
from everlog.core.store import Level, Store, StreamInfo
from everlog.discovery import FoundStore, identity
from everlog.errors import CorruptData, UnknownStream, UnsupportedVersion, UsageError
from everlog.pipelines.export.manifest import (
    FOREVER,
    ExportedFile,
    ExportedStream,
    Manifest,
    Range,
    StreamKey,
    missing,
    united,
)
from everlog.pipelines.export.names import folder_name, hour_name
from everlog.pipelines.export.task import SplitResult, SplitToExport
from everlog.pipelines.scan.arrow_batches import columns_schema
from everlog.pipelines.scan.options import SKIP, TIMESTAMP_FROM, ScanOptions
from everlog.sbe.columns import JSON
from everlog.stores import open_store, store_class

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Plan:
    """Splits in order, and the families of their streams. ``left_out``: stores that could not be opened, with
    ``onFault=skip``."""

    splits: list[SplitToExport] = field(default_factory=list)
    families: dict[StreamKey, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


def named_as_before(stores: Sequence[FoundStore], manifest: Manifest) -> list[FoundStore]:
    """The stores under the names that the export has for them, even if another path leads to them now."""
    known = {identity(key.store): key.store for key in manifest.streams}
    return [replace(store, path=known.get(identity(store.path), store.path)) for store in stores]


def plan_export(
    stores: Sequence[FoundStore], scan: ScanOptions, options: Mapping[str, Mapping[str, Any]], manifest: Manifest
) -> Plan:
    """Plan the export of all that is not in the manifest. Raises :class:`UnknownStream` if no store has a requested
    stream, :class:`CorruptData` if a stream is not the one that was exported under its name, or if records were removed
    before they were exported (unless ``failOnDataLoss`` is false)."""
    plan = Plan()
    matched: set[str] = set()
    names: set[str] = set()
    for found in stores:
        try:
            with open_store(found.path, family=found.family, **options[found.family]) as store:
                for info in store.streams(include_all=scan.include_all):
                    names.add(info.name)
                    fitting = [p for p in scan.streams if p == info.name or fnmatch.fnmatchcase(info.name, p)]
                    matched.update(fitting)
                    if fitting or not scan.streams:
                        _plan_stream(plan, found, store, info, scan, manifest)
        except (CorruptData, UnsupportedVersion) as error:
            if scan.on_fault != SKIP or isinstance(error, OtherStream):
                raise
            plan.left_out.append(f"{found.path}: {error}")
    if unknown := [pattern for pattern in scan.streams if pattern not in matched]:
        known = ", ".join(sorted(names)[:20]) or "no streams"
        found_names = ", ".join(map(repr, unknown))
        message = f"no stream {found_names}; the stores have {known}"
        raise UnknownStream("stream", found=found_names, expected=f"a name or pattern of {known}", message=message)
    return plan


class OtherStream(CorruptData):
    """A stream is not the one that was exported under its name, or lacks records that were not exported yet."""


def _plan_stream(
    plan: Plan, found: FoundStore, store: Store, info: StreamInfo, scan: ScanOptions, manifest: Manifest
) -> None:
    key = StreamKey(found.path, info.name)
    plan.families[key] = found.family
    before = manifest.streams.get(key)
    low = 0 if scan.start is None else store.parse_address(scan.start)
    high = FOREVER if scan.end is None else store.parse_address(scan.end)
    if before is not None and before.ranges:
        check_same(store, key, info, before, scan.level)
        if (loss := _loss(store, key, info, before, low)) is not None:
            if scan.fail_on_data_loss:
                raise loss
            plan.losses.append(str(loss))
    open_ends = store.open_ends(info.name)
    for start, end in _parts(missing(() if before is None else before.ranges, low, high), open_ends):
        splits = store.splits(
            info.name, start=start or None, end=None if end == FOREVER else end, split_bytes=scan.split_bytes
        )
        for number, split in enumerate(splits):
            begin = start if number == 0 or split.start is None else split.start
            following = splits[number + 1].start if number + 1 < len(splits) else None
            # Ranges between exported ones are final: later records exist, and no writer is late.
            is_last = end >= _end(before) or end in open_ends
            until = following if following is not None else None if is_last else end
            plan.splits.append(SplitToExport(len(plan.splits), key, found, split, begin, until))


def _parts(ranges: Iterable[Range], ends: Iterable[int]) -> Iterator[Range]:
    """Split each range at the ends that lie in it.

    >>> list(_parts([(0, 5), (7, 9)], (3, 5, 8))) [(0, 3), (3, 5), (7, 8), (8, 9)]
    """
    for start, end in ranges:
        for at in ends:
            if start < at < end:
                yield start, at
                start = at
        yield start, end


def _end(before: ExportedStream | None) -> int:
    """The end of the last range."""
    return before.ranges[-1][1] if before is not None and before.ranges else 0


def check_same(
    store: Store, key: StreamKey, info: StreamInfo, before: ExportedStream, level: Level = Level.RECORD
) -> bool:
    """Whether the last exported record is still there; false if it was removed since or is damaged. Raises
    :class:`OtherStream` if a different record or none is at its address, or if the stream ends before it."""
    last = before.last
    if last is None:
        return False
    address = int(last["address"])
    names = [name for name in last if name != "address"]
    where = f"{key.store}: stream {key.stream}"
    hint = "the store was replaced or truncated: export it to another folder"
    faults: list[Fault] = []
    scan = store.scan(
        key.stream, columns=names or ["length"], start=address, end=address + 1, level=level, on_fault=faults.append
    )
    for batch in scan:
        if not batch.row_count:
            continue
        now = {name: batch.to_list(name)[0] for name in names}
        if any(now[name] != last[name] for name in names):
            found = f"a record with {now} at {store.format_address(address)}"
            then = {name: last[name] for name in names}
            expected = f"{then} as exported"
            raise OtherStream(where, found=found, expected=expected, hint=hint)
        return True
    end = None if info.end is None else store.parse_address(info.end)
    if end is not None and end <= address:
        found = f"the stream's end at {info.end}"
        expected = f"an end after {store.format_address(address)}, which was exported"
        raise OtherStream(where, found=found, expected=expected, hint=hint)
    if info.first is not None and store.parse_address(info.first) <= address and not faults:
        expected = "the exported record"
        found = f"no record at {store.format_address(address)}"
        raise OtherStream(where, found=found, expected=expected, hint=hint)
    return False


def _loss(store: Store, key: StreamKey, info: StreamInfo, before: ExportedStream, low: int) -> OtherStream | None:
    """The error for records that were removed between two runs, or ``None``. With addresses of two columns consecutive
    records can't be recognised, so only a skipped number in the first column counts."""
    if info.first is None or before.resume is None:
        return None
    first, resume = store.parse_address(info.first), before.resume
    if len(store.address_columns) > 1:
        is_lost = first >> 32 > (resume >> 32) + 1
    else:
        is_lost = first > max(resume, low)
    if not is_lost:
        return None
    return OtherStream(
        f"{key.store}: stream {key.stream}",
        found=f"the first record at {info.first}",
        expected=f"it at {store.format_address(resume)} or before, where the export resumes",
        hint="records were removed before they were exported; failOnDataLoss=false continues without them",
    )


def waves(splits: Sequence[SplitToExport], byte_count: int) -> Iterator[list[SplitToExport]]:
    """Groups of consecutive splits of about ``byte_count`` bytes, one for each commit."""
    wave: list[SplitToExport] = []
    size = 0
    for split in splits:
        if wave and size + split.split.byte_count > byte_count:
            yield wave
            wave, size = [], 0
        wave.append(split)
        size += split.split.byte_count
    if wave:
        yield wave


def exported(
    before: Mapping[StreamKey, ExportedStream], plan: Plan, results: Iterable[SplitResult], new: Iterable[SplitResult]
) -> dict[StreamKey, ExportedStream]:
    """The streams once ``results`` are done, of which ``new`` have files that are not in ``before``.

    A split that was read completely and is followed by records in a later split of its stream is final, since a stream
    only grows at its end. Of the last split, and of one at an open end, only what was read counts as exported.
    """
    streams = dict(before)
    by_stream: dict[StreamKey, list[SplitResult]] = {}
    for result in results:
        if result.error is None:
            by_stream.setdefault(result.key, []).append(result)
    fresh = {result.number for result in new}
    for key, done in by_stream.items():
        stream = streams.get(key, ExportedStream(plan.families[key]))
        ranges = list(stream.ranges)
        later = False
        for result in sorted(done, key=lambda result: -result.number):
            split = plan.splits[result.number]
            until = split.until
            if until is not None and (later or _is_inside(stream, until)) and result.lost is None:
                ranges.append((split.start, until))
            elif result.resume is not None:
                ranges.append((split.start, result.resume))
            later = later or result.last is not None
        stream = replace(stream, ranges=united(ranges))
        for result in sorted(done, key=lambda result: result.number):
            if result.number in fresh:
                stream = _with_files(stream, key, result)
        streams[key] = stream
    return streams


def _is_inside(stream: ExportedStream, until: int) -> bool:
    """Whether later records were exported before."""
    return bool(stream.ranges) and until < stream.ranges[-1][1]


def _with_files(stream: ExportedStream, key: StreamKey, result: SplitResult) -> ExportedStream:
    files = tuple(
        ExportedFile(
            f"{stream_folder(key)}/{folder_name('hour', hour_name(file.hour))}/{file.name}",
            file.rows,
            file.byte_count,
            file.crc32,
            file.first,
            file.last,
        )
        for file in result.files
    )
    is_last = result.resume is not None and result.resume > (stream.resume or 0)
    return replace(
        stream,
        files=stream.files + files,
        fault_count=stream.fault_count + result.fault_count + (result.lost is not None),
        resume=result.resume if is_last else stream.resume,
        last=result.identity if is_last else stream.last,
    )


def stream_folder(key: StreamKey) -> str:
    """A stream's folder, relative to the export's."""
    return f"{folder_name('store', key.store)}/{folder_name('stream', key.stream)}"


def query_beside(
    manifest: Manifest, query: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The query of a run that adds to an export: if none of the run's families (the keys of ``options``) has
    configurable times, the export's ``timestampFrom`` stays."""
    knows = any(TIMESTAMP_FROM in option_names(store_class(family).options_class) for family in options)
    return dict(query) if knows else {**query, "timestampFrom": manifest.query.get("timestampFrom")}


def columns_of_all(manifest: Manifest, columns: list[Column], options: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """The export's columns, if the run has stores of only some of the export's families and the columns that it lacks
    belong to the others: these are null in the added rows. Otherwise ``columns``, which :func:`check_query` then
    refuses if they differ. ``options`` is keyed by family."""
    types = {str(field.type): kind for kind, field in zip(ColumnType, _fields(_of_each_type()), strict=True)}
    own = {field.name: str(field.type) for field in _fields(columns)}
    had = dict(manifest.columns)
    lacking = had.keys() - own.keys()
    is_part = {stream.family for stream in manifest.streams.values()} > set(options)
    are_of_others = not any(name.startswith(JSON.name) for name in lacking) and set(had.values()) <= types.keys()
    if not is_part or not are_of_others or not own.items() <= had.items():
        return columns
    return [Column(name, types[text]) for name, text in manifest.columns]


def _of_each_type() -> list[Column]:
    return [Column(kind.name, kind) for kind in ColumnType]


def _fields(columns: Iterable[Column]) -> list[pa.Field]:
    return list(columns_schema(columns))


def check_query(manifest: Manifest, query: Mapping[str, Any], kind: str, columns: Sequence[tuple[str, str]]) -> None:
    """Raise :class:`UsageError` if a run asks for something else than the earlier runs."""
    hint = "export to another folder to change it"
    if manifest.kind != kind:
        raise UsageError("format", found=kind, expected=f"{manifest.kind} as in earlier runs", hint=hint)
    for name in sorted({*manifest.query, *query}):
        if manifest.query.get(name) != query.get(name):
            found, expected = repr(query.get(name)), f"{manifest.query.get(name)!r} as in earlier runs"
            raise UsageError(f"option {name}", found=found, expected=expected, hint=hint)
    if tuple(columns) != manifest.columns:
        had = dict(manifest.columns)
        found = ", ".join(f"{name} {kind}" for name, kind in columns if had.get(name) != kind)
        found = found or ("fewer columns" if len(columns) < len(had) else "another order of the columns")
        hint = "name columns with the option columns, or export to another folder"
        message = f"this export has the columns {', '.join(had)}; the query has {found}"
        raise UsageError("columns", found=found, expected=", ".join(had), message=message, hint=hint)
