"""``everlog read``: prints records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from everlog.cli.faults import FaultPrinter
from everlog.cli.opening import open_given, sbe_columns, sbe_schema_option, store_arguments
from everlog.cli.records import Formatter, HexDumps, JsonLines, Lines, RawPayloads
from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_ROWS, ColumnData
from everlog.core.store import Level, Store
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.sbe import SbeColumns

SECONDS_BETWEEN_POLLS = 0.5


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records to print: of which ``streams`` (none given: all), from ``start`` to before ``end``, at most
    ``limit``."""

    streams: tuple[str, ...]
    start: str | None
    end: str | None
    limit: int | None
    level: Level
    include_all: bool = False
    is_following: bool = False


@dataclass(slots=True)
class Progress:
    """How far reading has come: ``left`` records still wanted, and for each stream the address after its last one."""

    left: int | None
    next_address: dict[str, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the limit is reached."""
        return self.left is not None and self.left <= 0


@click.command
@store_arguments
@click.option("--stream", "streams", multiple=True, help="Read this stream; repeatable. Default: all streams.")
@click.option("--from", "start", metavar="ADDRESS", help="Start at this address.")
@click.option("--to", "end", metavar="ADDRESS", help="Stop before this address.")
@click.option("--limit", type=click.IntRange(min=0), help="Print at most this many records in all.")
@click.option("--follow", is_flag=True, help="Wait for new records until interrupted.")
@click.option("--frames", is_flag=True, help="Print fragments as they are on disk instead of whole messages.")
@click.option("--all", "include_all", is_flag=True, help="Include streams that are marked as deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, with payloads in base64.")
@click.option("--raw", is_flag=True, help="Print the bare payload bytes, with nothing between them.")
@click.option("--delimiter", metavar="TEXT", help=r"With --raw: print TEXT after each payload; \n, \t, \0, \xHH work.")
@click.option("--hex", "as_hex", is_flag=True, help="Print a hex dump of each payload.")
@click.option("--no-payload", is_flag=True, help="Leave payloads out.")
@sbe_schema_option
def read(path: str, family: str | None, **given: Any) -> int:
    """Print records of the store at PATH, in address order. A fault is a warning: the intact records before and after
    it are printed, and the exit code is 1.
    """
    _check(given)
    level = Level.FRAME if given["frames"] else Level.RECORD
    selection = Selection(
        given["streams"],
        given["start"],
        given["end"],
        given["limit"],
        level,
        include_all=bool(given["include_all"]),
        is_following=bool(given["follow"]),
    )
    faults = FaultPrinter()
    progress = Progress(selection.limit)
    sbe = sbe_columns(given)
    try:
        with open_given(path, family, given) as store:
            formatter = _formatter(store, level, given, sbe)
            write_records(store, selection, formatter, progress, faults)
        while given["follow"] and not progress.done:
            time.sleep(SECONDS_BETWEEN_POLLS)
            # Open it again: a store lists its files when it is opened.
            with open_given(path, family, given, warn_of_key=False) as store:
                write_records(store, selection, formatter, progress, faults)
    finally:
        faults.close()
    return faults.exit_code


def _check(given: dict[str, Any]) -> None:
    forms = [flag for flag, name in (("--json", "as_json"), ("--raw", "raw"), ("--hex", "as_hex")) if given[name]]
    if len(forms) > 1:
        raise UsageError(forms[0], message=f"{' and '.join(forms)} exclude each other")
    if bare := [flag for flag in forms if flag != "--json"]:
        for flag, is_given in (
            ("--no-payload", given["no_payload"]),
            ("--sbe-schema", given["sbe_schema"] is not None),
        ):
            if is_given:
                raise UsageError(flag, message=f"{flag} and {bare[0]} exclude each other")
    if given["delimiter"] is not None and not given["raw"]:
        raise UsageError("--delimiter", message="--delimiter needs --raw")


def _formatter(store: Store, level: Level, given: dict[str, Any], sbe: SbeColumns | None) -> Formatter:
    if given["as_json"]:
        return JsonLines(store, level, payload=not given["no_payload"], sbe=sbe)
    if given["raw"]:
        return RawPayloads(unescaped(given["delimiter"] or ""))
    return HexDumps() if given["as_hex"] else Lines(payload=not given["no_payload"], sbe=sbe)


def unescaped(text: str) -> bytes:
    r"""The bytes of a delimiter: UTF-8, with the escapes ``\n``, ``\t``, ``\r``, ``\0``, ``\\`` and ``\xHH``."""
    import re

    known = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}

    def value(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[2], 16)]) if match[2] else known[match[1]]

    return re.sub(rb"\\(?:([ntr0\\])|x([0-9a-fA-F]{2}))", value, text.encode("utf-8", "surrogateescape"))


def write_records(
    store: Store, selection: Selection, formatter: Formatter, progress: Progress, faults: FaultPrinter
) -> None:
    """Print the selected records that have not been printed yet; report faults to ``faults``."""
    out = sys.stdout.buffer
    names = selection.streams or store.stream_names(include_all=selection.include_all)
    for stream in names:
        with faults.reading(stream):
            for batch in batches(store, stream, selection, formatter, progress, faults):
                out.write(formatter.lines(stream, batch))
        if progress.done:
            break
    out.flush()


def batches(
    store: Store, stream: str, selection: Selection, formatter: Formatter, progress: Progress, faults: FaultPrinter
) -> Iterator[Batch]:
    """One stream's batches; the last one is cut at the limit."""
    if progress.done:
        return
    columns = list(dict.fromkeys([*formatter.columns, *store.address_columns]))
    # With a small limit read small batches, not records that are never printed.
    max_rows = MAX_BATCH_ROWS if progress.left is None else max(1, min(MAX_BATCH_ROWS, progress.left))
    scan = store.scan(
        stream,
        columns=columns,
        start=progress.next_address.get(stream, selection.start),
        end=_end(store, stream, selection),
        level=selection.level,
        max_rows=max_rows,
        on_fault=faults,
    )
    for batch in scan:
        if batch.row_count == 0:
            continue
        if progress.left is not None:
            if batch.row_count > progress.left:
                batch = cut(batch, progress.left)
            progress.left -= batch.row_count
        progress.next_address[stream] = _last_address(store, batch) + 1
        yield batch
        if progress.done:
            return


def _end(store: Store, stream: str, selection: Selection) -> int | None:
    """The address to stop before. ``--follow`` continues after the last printed record, so it must not read past the
    place where a slow writer still appends: that writer's records would be skipped."""
    end = None if selection.end is None else store.parse_address(selection.end)
    settled = store.settled_end(stream) if selection.is_following else None
    return min((bound for bound in (end, settled) if bound is not None), default=None)


def cut(batch: Batch, row_count: int) -> Batch:
    """The first ``row_count`` rows of a batch. The nulls of each column are counted again."""
    data = {}
    for name, column in batch.data.items():
        nulls = column.null_count
        if column.validity is not None and nulls:
            bits = column.validity
            nulls = sum(not bits[i >> 3] >> (i & 7) & 1 for i in range(row_count))
        data[name] = ColumnData(column.type, column.values, column.offsets, column.validity, nulls)
    return Batch(batch.schema, row_count, data)


def _last_address(store: Store, batch: Batch) -> int:
    last = batch.row_count - 1
    values = [int(batch.data[name].values[last]) for name in store.address_columns]
    return values[0] if len(values) == 1 else values[0] << 32 | values[1]
