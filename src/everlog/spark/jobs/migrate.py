"""Moves records of any family into journals or an Aeron archive: the driver plans, tasks move.

Every stream keeps its order and gets its own target: a journal in a folder, or a recording of one archive. Only one
process may own an archive, so one task moves all streams into it; journals are filled by several tasks at once.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from everlog.core.family.migrating import Migrating, Target, TargetOptions
from everlog.core.family.record import load
from everlog.core.files.writable import LocalWritableStorage
from everlog.core.options import check_choice
from everlog.core.report import Fault, Progress, Severity
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, UnknownStream, UsageError
from everlog.pipelines.migrate.manifest import write_parquet
from everlog.pipelines.migrate.moving import Mover, StreamMove, look_at_source
from everlog.pipelines.migrate.notes import (
    Note,
    Progressed,
    assign,
    held,
    notes_folder,
    open_notes,
    read_note,
)
from everlog.pipelines.migrate.progress import ProgressFolder, report_count, watch
from everlog.pipelines.migrate.source import refuse_options
from everlog.pipelines.scan.options import FAIL, OnFault
from everlog.spark.jobs.progress import TaskProgress
from everlog.stores import FAMILIES, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("everlog.spark")
ManifestFormat = Literal["jsonl", "parquet"]
JSON_LINES: Final = "jsonl"
PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTarget:
    """Where records go. ``kind``: the target's family. ``folder`` is the store itself if all streams share one (an
    archive), otherwise a folder with a store for each stream (journals). ``notes``: the folder of notes, ``None`` for
    ``folder`` with ``.everlog-migrate`` appended. ``manifest``: ``jsonl``, or ``parquet`` in addition."""

    kind: str
    folder: str
    notes: str | None = None
    manifest: ManifestFormat = JSON_LINES
    options: TargetOptions = field(default_factory=TargetOptions)

    def __post_init__(self) -> None:
        check_choice("target", self.kind, migration_kinds())
        check_choice("manifest", self.manifest, get_args(ManifestFormat))
        if not self.folder:
            raise UsageError("target", found="no folder", expected="a folder", message="the target's folder is missing")
        self.migrating.check(self.options)

    @property
    def migrating(self) -> Migrating:
        """How records are moved into stores of this kind."""
        found: Migrating = load(str(FAMILIES[self.kind].migrating))()
        return found


def migration_kinds() -> list[str]:
    """The families that records can be moved into."""
    return [family.name for family in FAMILIES.values() if family.migrating is not None]


def plan_streams(
    stores: Sequence[FoundStore],
    target: RecordTarget,
    *,
    streams: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    on_fault: OnFault = FAIL,
    include_all: bool = False,
    fail_on_data_loss: bool = True,
    dry_run: bool = False,
) -> list[StreamMove]:
    """A move for each stream of the stores, or of those in ``streams`` (names or patterns). ``options`` open the stores
    of each family. With ``fail_on_data_loss``, a later run fails for a stream whose records were removed before they
    were moved. With ``dry_run`` nothing is noted. Raises :class:`UsageError`, :class:`UnknownStream`, and what opening
    a store raises."""
    for given in (options or {}).values():
        refuse_options(given)
    for folder in (target.folder, notes_folder(target.folder, target.notes)):
        if os.path.exists(folder) and not os.path.isdir(folder):
            message = f"the target {folder} is a file; give a folder"
            raise UsageError("target", found=folder, expected="a folder", message=message)
    wanted: list[tuple[str, str, str]] = []
    sizes: list[int] = []
    fitted: set[str] = set()
    for found in stores:
        path = found.path if "://" in found.path else os.path.realpath(found.path)
        _refuse_inside(path, target)
        with open_store(path, family=found.family, **(options or {}).get(found.family, {})) as store:
            for info in store.streams(include_all=include_all):
                fitting = [s for s in streams if s == info.name or fnmatchcase(info.name, s)]
                fitted.update(fitting)
                if fitting or not streams:
                    wanted.append((path, found.family, info.name))
                    sizes.append(info.byte_count)
    if missing := [pattern for pattern in streams if pattern not in fitted]:
        names = ", ".join(map(repr, missing))
        message = f"no stream {names} (see: everlog ls STORE)"
        raise UnknownStream("stream", found=names, expected="a stream that ls lists", message=message)
    assigned = assign(notes_folder(target.folder, target.notes), target.kind, wanted, keep=not dry_run)
    return [
        StreamMove(
            assigned=place,
            options=dict((options or {}).get(place.family, {})),
            on_fault=on_fault,
            byte_count=size,
            fail_on_data_loss=fail_on_data_loss,
        )
        for place, size in zip(assigned, sizes, strict=True)
    ]


def _refuse_inside(path: str, target: RecordTarget) -> None:
    """Raise :class:`UsageError` if target or notes are inside a source store."""
    for folder in (target.folder, notes_folder(target.folder, target.notes)):
        if os.path.realpath(folder) == path or os.path.realpath(folder).startswith(path.rstrip("/") + "/"):
            message = f"the target's folder {folder} is inside the store {path}; give a folder outside of it"
            raise UsageError("target", found=folder, expected="a folder outside", message=message)


def rehearse(
    moves: Sequence[StreamMove], target: RecordTarget, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """What would be moved, found by reading without changing anything: a row for each stream."""
    rows = []
    for number, move in enumerate(moves):
        if progress is not None:
            progress(move.assigned.stream, number, len(moves))
        rows.append(_rehearsed(move, target))
    return rows


def _rehearsed(move: StreamMove, target: RecordTarget) -> dict[str, Any]:
    folder, place = notes_folder(target.folder, target.notes), move.assigned
    state = read_note(LocalWritableStorage(folder), f"{place.name}.json") if os.path.isdir(folder) else Progressed()
    count = size = 0
    faults: list[Fault] = []
    row = describe(move, target) | {"error": None}
    with open_store(place.store, family=place.family, **move.options) as store:
        try:
            losses = look_at_source(store, move, state)
        except EverlogError as error:
            return row | _failed(error, "would fail")
        end = min(store.open_ends(place.stream), default=None)
        columns = ["address", "length"]
        for batch in store.scan(place.stream, columns=columns, start=state.last, end=end, on_fault=faults.append):
            addresses, lengths = batch.to_list("address"), batch.to_list("length")
            start = 1 if addresses and addresses[0] == state.last else 0
            count += len(addresses) - start
            size += sum(lengths[start:])
    # Pending records of a killed run may already be in the target.
    return row | {
        "outcome": "would move" if count else "up to date",
        "moved": count,
        "moved_bytes": size,
        "total": state.records + count,
        "faults": sum(fault.severity is Severity.FAULT for fault in faults),
        "losses": losses,
    }


def describe(move: StreamMove, target: RecordTarget) -> dict[str, Any]:
    """A move as plain values for the results."""
    place = move.assigned
    to = target.migrating.place(target.folder, place)
    return {"store": place.store, "family": place.family, "stream": place.stream, "target": to}


def migrate_records(
    spark: SparkSession,
    moves: Sequence[StreamMove],
    target: RecordTarget,
    *,
    tasks: int | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Move streams; returns a row for each, in order. A stream that fails has a row with an ``error``; the others are
    moved. A repeated run, even after a kill, adds what is missing, each record once."""
    if not moves:
        return []
    numbered = sorted(enumerate(moves), key=lambda item: -item[1].byte_count)
    count = (
        1 if target.migrating.is_shared else max(1, min(len(moves), tasks or 4 * spark.sparkContext.defaultParallelism))
    )
    with ProgressFolder(progress is not None) as folder:
        place = folder.path

        def run(part: Iterable[tuple[int, StreamMove]]) -> Iterator[str]:
            for row in move_streams(list(part), target, place):
                yield json.dumps(row)

        total = sum(move.byte_count for move in moves)
        with watch(folder, progress, "bytes", total), TaskProgress(spark, "migrate", None):
            lines = spark.sparkContext.parallelize(numbered, count).mapPartitions(run).collect()
    rows = {row.pop("number"): row for row in map(json.loads, lines)}
    return [rows[number] for number in range(len(moves))]


def move_streams(
    numbered: Sequence[tuple[int, StreamMove]], target: RecordTarget, progress_folder: str | None = None
) -> Iterator[dict[str, Any]]:
    """Move a task's streams one after another; yields a row for each, including errors."""
    if not numbered:
        return
    try:
        with target.migrating.opened(target.folder, target.options) as open_target:
            for number, move in numbered:
                yield _row(number, move, target, partial(open_target, move.assigned), progress_folder)
    except EverlogError as error:
        for number, move in numbered:  # of several rows with a number the last one counts
            yield describe(move, target) | {"number": number} | _failed(error)


def _failed(error: EverlogError, outcome: str = "failed") -> dict[str, Any]:
    counts: dict[str, Any] = {"moved": None, "moved_bytes": None, "total": None, "faults": 0, "losses": []}
    return {"outcome": outcome, "error": str(error)} | counts


def _row(
    number: int, move: StreamMove, target: RecordTarget, opened: Callable[[], Target], progress_folder: str | None
) -> dict[str, Any]:
    row = describe(move, target) | {"number": number, "error": None}
    name = move.assigned.name
    storage = open_notes(notes_folder(target.folder, target.notes))
    try:
        with held(storage, f"{name}.lock"), closing(Note(storage, name)) as note, closing(opened()) as place:
            mover = Mover(move, place, note, lambda moved: report_count(progress_folder, number, moved))
            mover.run()
            manifest = write_parquet(note.manifest) if target.manifest == PARQUET else note.manifest
            return row | {
                "outcome": "moved" if mover.moved or mover.found_again else "up to date",
                "target": place.place,
                "moved": mover.moved,
                "moved_bytes": mover.moved_bytes,
                "found_again": mover.found_again,
                "total": note.state.records,
                "faults": mover.faults,
                "losses": mover.losses,
                "manifest": manifest,
            }
    except EverlogError as error:
        LOG.warning("stream %s: %s", move.assigned.stream, error)
        return row | _failed(error)
