"""``everlog export``: writes records to one Parquet, Arrow or JSON lines file, batch by batch."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from everlog.cli.faults import FaultPrinter
from everlog.cli.opening import open_given, sbe_columns, sbe_schema_option, store_arguments
from everlog.cli.progress import ProgressLine
from everlog.cli.records import JsonLines
from everlog.cli.text import print_error
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.counting import counted
from everlog.core.store import Level, Store
from everlog.errors import MissingDependency, UsageError

if TYPE_CHECKING:
    from everlog.sbe import SbeColumns

FORMATS = ("parquet", "arrow", "jsonl")
SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl"}
ROW_GROUP_ROWS = 256 << 10
ROW_GROUP_BYTES = 64 << 20
"""A Parquet row group is closed at either limit: readers prefer large groups, memory use prefers small ones."""

NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links, such as those of memory cards and some network file systems."""

Sink = Callable[[str, Batch], None]


@click.command
@store_arguments
@click.argument("out")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Default: from OUT's ending, else parquet.")
@click.option("--stream", "streams", multiple=True, help="Export this stream; repeatable. Default: all streams.")
@click.option("--from", "start", metavar="ADDRESS", help="Start at this address.")
@click.option("--to", "end", metavar="ADDRESS", help="Stop before this address.")
@click.option("--frames", is_flag=True, help="Export fragments as they are on disk instead of whole messages.")
@click.option("--all", "include_all", is_flag=True, help="Include streams that are marked as deleted.")
@click.option("--no-payload", is_flag=True, help="Leave payloads out.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@sbe_schema_option
@click.option("--sbe-message", metavar="NAME", help="With --sbe-schema: add a column for each field of this message.")
@click.option("--sbe-only", is_flag=True, help="With --sbe-message: leave out all other records.")
def export(path: str, family: str | None, out: str, kind: str | None, **given: Any) -> int:
    """Write the records of the store at PATH to the file OUT, with every column. OUT appears only when it is
    complete."""
    kind = kind or SUFFIXES.get(Path(out).suffix.lower(), "parquet")
    target = _target(path, out, given["force"])
    sbe = _sbe(kind, given)
    faults = FaultPrinter()
    with open_given(path, family, given) as store:
        table = _table(store, kind, given, sbe)
        with _named_when_complete(target, given["force"]) as file, WRITERS[kind](file, table) as sink:
            count = _copy(store, table, given, sink, faults)
    faults.close()
    print_error(f"wrote {counted(count, 'record')} as {kind} to {out}")
    return faults.exit_code


@dataclass(frozen=True, slots=True)
class Table:
    """The file's ``columns``: the ``scanned`` ones come from the store, ``sbe`` decodes the others. A ``formatter``
    (JSON lines) takes batches as they are scanned."""

    level: Level
    columns: tuple[Column, ...]
    scanned: list[str]
    sbe: SbeColumns | None
    formatter: JsonLines | None = None

    def with_columns(self, batch: Batch) -> Batch:
        """A scanned batch with the file's columns."""
        if self.sbe is None or self.formatter is not None:
            return batch
        batch = self.sbe.extend(batch, {column.name for column in self.columns})
        return Batch(self.columns, batch.row_count, {column.name: batch.data[column.name] for column in self.columns})


def _sbe(kind: str, given: dict[str, Any]) -> SbeColumns | None:
    message = given["sbe_message"]
    if given["sbe_only"] and message is None:
        raise UsageError("--sbe-only", message="--sbe-only needs --sbe-message")
    if given["sbe_schema"] is None:
        if message is not None:
            raise UsageError("--sbe-message", message="--sbe-message needs --sbe-schema")
        return None
    if kind == "jsonl" and message is not None:
        text = "--sbe-message does not apply to jsonl, which has every field of every message"
        raise UsageError("--sbe-message", found="jsonl", expected="parquet or arrow", message=text)
    return sbe_columns(given, message, only=given["sbe_only"])


def _table(store: Store, kind: str, given: dict[str, Any], sbe: SbeColumns | None) -> Table:
    level = Level.FRAME if given["frames"] else Level.RECORD
    if kind == "jsonl":
        formatter = JsonLines(store, level, payload=not given["no_payload"], sbe=sbe)
        return Table(level, (), formatter.columns, sbe, formatter)
    own = tuple(c for c in store.schema(level=level) if not (given["no_payload"] and c.name == "payload"))
    scanned = [column.name for column in own]
    if sbe is not None and "payload" not in scanned:
        scanned.append("payload")
    return Table(level, own + (sbe.default_columns if sbe is not None else ()), scanned, sbe)


def _target(path: str, out: str, force: bool) -> Path:
    """The path to write to; a link is followed. Raises :class:`UsageError` for a folder, a device or a pipe, which
    must never be replaced, for an existing file without ``force``, and for a path inside the store."""
    if out == "-":
        hint = "everlog read --json prints records"
        raise UsageError("OUT", found="-", expected="a file name", hint=hint)
    target = Path(out)
    if target.is_symlink() and not target.exists():
        raise UsageError(out, found="a dangling link", message=f"{out} is a dangling link; name a file")
    if target.is_dir():
        raise UsageError(out, found="a folder", message=f"{out} is a folder; name a file")
    if target.exists() and not target.is_file():
        raise UsageError(out, found="not a file", message=f"{out} is a device, a pipe or a socket; name a file")
    if target.exists() and not force:
        raise _already_exists(out)
    target = Path(os.path.realpath(target)) if target.is_symlink() else target
    folder = target.parent.resolve()
    if os.path.isdir(path) and folder.is_relative_to(Path(path).resolve()):
        text = f"{out} is inside the store; exporting never changes a store, so name a file outside of it"
        raise UsageError(out, found="a file inside the store", expected="a file outside", message=text)
    return target


@contextmanager
def _named_when_complete(target: Path, force: bool) -> Iterator[BinaryIO]:
    """A file next to ``target`` that is synced, then renamed to it at the end of the block. A crash before the rename
    leaves ``.NAME.PID.part`` and ``target`` unchanged; a crash after it leaves the whole file. Raises
    :class:`UsageError` if another process has created ``target`` since, without ``force``.
    """
    part, file = _new_part(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(part, target)
        else:
            _name_new(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _new_part(target: Path) -> tuple[Path, BinaryIO]:
    """Create a file that no other process writes. In containers, several processes may have the same id."""
    number = 1
    while True:
        part = target.with_name(f".{target.name}.{os.getpid()}{'' if number == 1 else f'-{number}'}.part")
        try:
            return part, open(part, "xb")
        except FileExistsError:
            number += 1


def _name_new(part: Path, target: Path) -> None:
    """Rename ``part`` to ``target``, which must not exist. A hard link, unlike a rename, never replaces a file. On file
    systems without links, a file created between the check and the rename is replaced."""
    try:
        os.link(part, target)
        part.unlink()
    except FileExistsError:
        raise _already_exists(str(target)) from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(target):
            raise _already_exists(str(target)) from None
        os.rename(part, target)


def _already_exists(out: str) -> UsageError:
    text = f"{out} already exists"
    return UsageError(out, found="an existing file", expected="a new file", hint="--force replaces it", message=text)


def _copy(store: Store, table: Table, given: dict[str, Any], sink: Sink, faults: FaultPrinter) -> int:
    every = given["include_all"]
    names = tuple(dict.fromkeys(given["streams"])) or store.stream_names(include_all=every)
    count = done = 0
    with ProgressLine() as progress:
        sizes = {info.name: info.byte_count for info in store.streams(include_all=every)} if progress.is_shown else {}
        total = sum(sizes.get(name, 0) for name in names)
        for name in names:
            with faults.reading(name):
                scan = store.scan(
                    name,
                    columns=table.scanned,
                    start=given["start"],
                    end=given["end"],
                    level=table.level,
                    on_fault=faults,
                )
                before = done
                for batch in scan:
                    made = table.with_columns(batch)
                    sink(name, made)
                    count += made.row_count
                    if "length" in batch.data:
                        done += sum(batch.to_list("length"))
                    progress(name, min(done, total), total)
                done = before + sizes.get(name, 0)
    return count


@contextmanager
def _jsonl(file: BinaryIO, table: Table) -> Iterator[Sink]:
    formatter = table.formatter
    assert formatter is not None
    yield lambda stream, batch: _discard(file.write(formatter.lines(stream, batch)))


@contextmanager
def _arrow(file: BinaryIO, table: Table) -> Iterator[Sink]:
    pa = _pyarrow()
    with pa.ipc.new_file(file, _arrow_schema(pa, table)) as writer:
        yield lambda stream, batch: _discard(writer.write_batch(pa.record_batch(batch)))


@contextmanager
def _parquet(file: BinaryIO, table: Table) -> Iterator[Sink]:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    schema = _arrow_schema(pa, table)
    held: list[Any] = []
    rows = size = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:

        def flush() -> None:
            nonlocal rows, size
            if held:
                writer.write_table(pa.Table.from_batches(held, schema))
                held.clear()
                rows = size = 0

        def sink(stream: str, batch: Batch) -> None:
            nonlocal rows, size
            made = pa.record_batch(batch)
            held.append(made)
            rows, size = rows + made.num_rows, size + made.nbytes
            if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
                flush()

        yield sink
        flush()


WRITERS = {"parquet": _parquet, "arrow": _arrow, "jsonl": _jsonl}


def _discard(_: object) -> None:
    """Drop a writer's result: a sink returns nothing."""


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        text = "everlog export needs pyarrow: pip install 'everlog[arrow]', or use --format jsonl"
        raise MissingDependency("everlog export", found="pyarrow is not installed", message=text) from error
    return pyarrow


def _arrow_schema(pa: Any, table: Table) -> Any:
    from everlog.core.arrow import arrow_schema

    return pa.schema(arrow_schema(table.columns))
