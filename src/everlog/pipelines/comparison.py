"""The sides of a comparison: a store, or an export of one, as rows of stream, place and signature. No payload leaves
the task that reads it.

``place`` is the address as an integer that sorts as addresses do: the number itself, or for a pair of 32-bit numbers
the first in the upper half and the second in the lower half, minus 2^63 so that it fits. ``signature`` is the payload's
length in the upper half and its CRC-32 in the lower half; a record without a payload counts as length -1.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everlog.core.counting import counted
from everlog.core.options import option_names
from everlog.core.report import Fault, Severity
from everlog.core.splits import Split
from everlog.discovery import FoundStore, find_stores
from everlog.errors import CorruptData, UnknownStream, UsageError
from everlog.pipelines.export.delta import DeltaLog
from everlog.pipelines.export.folder import is_export, read_manifest
from everlog.pipelines.export.manifest import ExportedFile, Manifest, StreamKey
from everlog.pipelines.export.reading import FileToRead, batches_of, files_of
from everlog.pipelines.scan.options import SKIP, ScanOptions
from everlog.stores import family_named, open_store, store_class

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "side int, stream string, place bigint, signature bigint, faults bigint"
"""A row with ``faults`` is not a record: it gives the number of faults in a piece of the stream."""
BIAS = 1 << 63
COUNTED_BITS = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """What a task reads: a split of a store, or an exported file. ``stream`` is the name used in the comparison."""

    side: int
    stream: str
    byte_count: int
    skips: bool = False
    store: FoundStore | None = None
    options: Mapping[str, Any] | None = None
    split: Split | None = None
    file: FileToRead | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison. ``streams``: their names in the comparison. ``is_pair``: whether an address is two
    numbers. ``options``: fields of the options that the store is opened with. ``faults``: damage per stream that an
    export skipped."""

    label: str
    family: str
    streams: tuple[str, ...]
    pieces: tuple[Piece, ...]
    is_pair: bool
    options: frozenset[str] = frozenset()
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A side as the user asked for it. ``names`` maps the side's stream names to those of the comparison. ``others``:
    paths of the other sides; they select the store in an export of several."""

    number: int
    path: str
    scan: ScanOptions
    names: Mapping[str, str]
    others: tuple[str, ...] = ()


def side_of(wanted: Wanted) -> Side:
    """The side at a path: one store, or an export of one store. Raises :class:`NotAStore`, :class:`UsageError`,
    :class:`UnknownStream`, and what opening a store raises."""
    if "://" not in wanted.path and is_export(wanted.path):
        return _exported(wanted)
    found = find_stores((wanted.path,), wanted.scan.family)
    if len(found) != 1:
        message = f"{wanted.path} has {len(found)} stores; give one store, or the export of one"
        raise UsageError(wanted.path, found=f"{len(found)} stores", expected="one store", message=message)
    return _stored(wanted, found[0])


def _stored(wanted: Wanted, store: FoundStore) -> Side:
    from everlog.pipelines.scan.columns import family_options

    scan = wanted.scan
    known = option_names(store_class(store.family).options_class)
    mine = {
        name: value for name, value in scan.family_options.items() if name in known
    }  # the rest is for the other side
    options = family_options([store], replace(scan, family_options=mine))[store.family]
    pieces, streams = [], []
    with open_store(store.path, family=store.family, **options) as opened:
        start = None if scan.start is None else opened.parse_address(scan.start)
        end = None if scan.end is None else opened.parse_address(scan.end)
        for name in _chosen(wanted, opened.stream_names(include_all=scan.include_all)):
            shown = wanted.names.get(name, name)
            streams.append(shown)
            for split in opened.splits(name, start=start, end=end, split_bytes=scan.split_bytes):
                size, skips = split.byte_count, scan.on_fault == SKIP
                pieces.append(Piece(wanted.number, shown, size, skips, store, options, split))
        is_pair = len(opened.address_columns) == 2
    return Side(store.path, store.family, tuple(streams), tuple(pieces), is_pair, frozenset(known))


def _exported(wanted: Wanted) -> Side:
    path = os.path.abspath(wanted.path)
    manifest = read_manifest(path)
    if manifest is None or not manifest.streams:
        raise UsageError(path, found="no records", message=f"the export {path} has no records")
    if wanted.scan.start is not None or wanted.scan.end is not None:
        raise UsageError(
            "options start, end",
            found=f"the export {path}",
            message=f"options start and end do not apply to {path}: an export is compared as a whole",
        )
    store = _store_of(wanted, manifest, path)
    keys = {key.stream: key for key in manifest.streams if key.store == store}
    columns = tuple(name for name in ("address", "length", "crc32") if name in dict(manifest.columns))
    if len(columns) < 3:
        found = ", ".join(columns)
        raise UsageError(
            path,
            found=found,
            expected="length and crc32",
            message=f"the export {path} lacks the column length or crc32",
        )
    family = manifest.streams[next(iter(keys.values()))].family
    pieces, streams = [], []
    chosen = _chosen(wanted, list(keys))
    faults = {wanted.names.get(name, name): manifest.streams[keys[name]].fault_count for name in chosen}
    _check_whole(wanted, path, manifest, sum(faults.values()))
    files = _files(path, manifest, [keys[name] for name in chosen])
    for name in chosen:
        shown = wanted.names.get(name, name)
        streams.append(shown)
        for file in files[keys[name]]:
            pieces.append(Piece(wanted.number, shown, file.file.byte_count, file=file, columns=columns))
    return Side(path, family, tuple(streams), tuple(pieces), family_named(family).address_parts == 2, faults=faults)


def _check_whole(wanted: Wanted, path: str, manifest: Manifest, fault_count: int) -> None:
    """Raise :class:`UsageError` for an export that by its options lacks records, which would show as differences, and
    for one that skipped damage, unless ``onFault`` says to count it."""
    query = manifest.query
    reasons = {
        "frames, not records": query.get("level", "record") != "record",
        "records selected by their time": query.get("startTime") is not None or query.get("endTime") is not None,
        "only records with an SBE message (sbeOnly)": bool(query.get("sbeOnly")),
    }
    if found := ", ".join(reason for reason, applies in reasons.items() if applies):
        raise UsageError(
            path,
            found=found,
            expected="all records",
            message=f"{path} is an export of {found}; export all records to compare them",
        )
    if fault_count and wanted.scan.on_fault != SKIP:
        message = f"the export {path} skipped {counted(fault_count, 'fault')}"
        raise UsageError(
            path, found=counted(fault_count, "fault"), message=message, hint="onFault=skip compares the rest"
        )


def _files(path: str, manifest: Manifest, keys: Sequence[StreamKey]) -> dict[StreamKey, list[FileToRead]]:
    """The files of some streams. For a Delta table, its current files: after optimizing the same records are in other
    files, and after restoring there are fewer."""
    if manifest.kind != "delta":
        return {key: files_of(path, manifest, [key]) for key in keys}
    found: dict[StreamKey, list[FileToRead]] = {key: [] for key in keys}
    for file in DeltaLog(path).files():
        if file.key in found:
            exported = ExportedFile(file.path, file.rows, file.byte_count, 0, "", "")
            found[file.key].append(FileToRead(file.key, os.path.join(path, file.path), exported, manifest.kind))
    return found


def _store_of(wanted: Wanted, manifest: Manifest, path: str) -> str:
    stores = sorted({key.store for key in manifest.streams})
    others = {os.path.abspath(other) for other in wanted.others if "://" not in other}
    fitting = stores if len(stores) == 1 else [store for store in stores if store in others or store in wanted.others]
    if len(fitting) != 1:
        found = f"an export of {len(stores)} stores: {', '.join(stores[:5])}"
        raise UsageError(
            path,
            found=found,
            expected="one of them as the other side",
            message=f"{path} is {found}; give one of them as the other side",
        )
    return fitting[0]


def _chosen(wanted: Wanted, names: Sequence[str]) -> list[str]:
    """The streams that were asked for. Raises :class:`UnknownStream`."""
    patterns = wanted.scan.streams or tuple(wanted.names)
    found = [name for name in names if not patterns or any(_fits(name, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in found):
            known = ", ".join(names[:20]) or "no streams"
            message = f"no stream {pattern!r} in {wanted.path}; it has {known}"
            raise UnknownStream(
                wanted.path, found=repr(pattern), expected=f"a name or pattern of {known}", message=message
            )
    return found


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


# What tasks do


def rows_of(group: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """Batches of :data:`SCHEMA`. Raises :class:`CorruptData` for damage, unless the piece says to skip it."""
    for piece in group:
        yield from _from_file(piece) if piece.file is not None else _from_store(piece)


def _from_store(piece: Piece) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from everlog.pipelines.scan.arrow_batches import ArrowBatches

    assert piece.store is not None
    assert piece.split is not None
    count = 0

    def on_fault(fault: Fault) -> None:
        nonlocal count
        if fault.severity is Severity.NOTE:
            return
        if not piece.skips:
            assert piece.store is not None
            where, hint = f"{piece.store.path}/{fault.file}", f"{fault.code}; onFault=skip compares the rest"
            raise CorruptData(where, offset=fault.offset, found=fault.found, expected=fault.expected, hint=hint)
        count += 1

    with open_store(piece.store.path, family=piece.store.family, **(piece.options or {})) as store:
        names = [*store.address_columns, "length", "crc32"]
        arrows = ArrowBatches(pa.schema([pa.field(name, pa.int64()) for name in names]))
        for batch in store.scan_split(piece.split, columns=names, on_fault=on_fault):
            if batch.row_count:
                made = arrows.convert(batch)
                yield _batch(piece, made.columns[:-2], made.column("length"), made.column("crc32"))
    if count:
        yield _rows(piece, [None], [None], [count])


def _from_file(piece: Piece) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert piece.file is not None
    for batch in batches_of(piece.file.place, piece.file.kind, piece.columns):
        addresses, lengths, sums = (batch.column(name) for name in piece.columns)
        first = addresses[0].as_py() if batch.num_rows else ""
        if ":" in first:
            halves = [address.split(":") for address in addresses.to_pylist()]
            places = [pa.array([int(half[side], 16) for half in halves], pa.int64()) for side in (0, 1)]
        else:
            places = [pc.cast(addresses, pa.int64())]
        yield _batch(piece, places, pc.cast(lengths, pa.int64()), pc.cast(sums, pa.int64()))


def _batch(piece: Piece, address: Sequence[pa.Array], lengths: pa.Array, sums: pa.Array) -> pa.RecordBatch:
    import numpy as np
    import pyarrow.compute as pc

    def numbers(values: pa.Array, empty: int) -> Any:
        return np.asarray(pc.fill_null(values, empty).to_numpy(zero_copy_only=False), dtype=np.int64)

    places = numbers(address[0], 0)
    if len(address) == 2:
        joined = places.astype(np.uint64) << np.uint64(32) | numbers(address[1], 0).astype(np.uint64)
        places = (joined ^ np.uint64(BIAS)).view(np.int64)
    signatures = (numbers(lengths, -1) << COUNTED_BITS) | numbers(sums, 0)
    return _rows(piece, places, signatures, None)


def _rows(piece: Piece, places: Any, signatures: Any, faults: list[int] | None) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(places)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([piece.side], pa.int32()).take(pa.array([0] * count, pa.int32())),
            pa.array([piece.stream]).take(pa.array([0] * count, pa.int32())),
            pa.array(places, pa.int64()),
            pa.array(signatures, pa.int64()),
            pa.nulls(count, pa.int64()) if faults is None else pa.array(faults, pa.int64()),
        ],
        names=[part.split()[0] for part in SCHEMA.split(", ")],
    )


def address_text(place: int | None, is_pair: bool) -> str | None:
    """A place as an address in text form."""
    if place is None:
        return None
    if not is_pair:
        return str(place)
    number = place + BIAS
    return f"{number >> 32:08x}:{number & 0xFFFFFFFF:08x}"


__all__ = ["SCHEMA", "Piece", "Side", "StreamKey", "Wanted", "address_text", "rows_of", "side_of"]
