"""``everlog archive DIR verify``."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import click

from everlog.aeron.archive.catalog import Catalog, CatalogEntry
from everlog.aeron.archive.recordings import recording_of
from everlog.aeron.archive.segments import parse_segment_name
from everlog.aeron.archive.store import ArchiveStore
from everlog.cli.archive.recordings import NOT_DONE, entry_of, json_option, open_archive
from everlog.cli.progress import ProgressLine
from everlog.cli.text import complain, json_line, printable
from everlog.core.report import Fault, Severity
from everlog.errors import UsageError
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32

CHECKSUMS = {"crc32": IEEE, "crc32c": CASTAGNOLI}
CATALOG = "catalog"


@click.command
@click.argument("recording", metavar="[RECORDING]", type=click.IntRange(min=0), required=False)
@click.option("-a", "every", is_flag=True, help="All segment files, not only the last one of each recording.")
@click.option("-checksum", "--checksum", "checksum_class", metavar="CLASS", help="Compare checksums: of this class.")
@json_option
@click.pass_obj
def verify(folder: str, recording: int | None, every: bool, checksum_class: str | None, as_json: bool) -> int:
    """Check recordings: (recordingId=N) OK, or ERR with the first fault; --json lists all. Nothing is written: neither
    is a stop position set, nor a recording marked, nor a file cut. CLASS: Crc32 or Crc32c, as the archive's Java class
    or without its package. Exit code 1 for faults.
    """
    kind = None if checksum_class is None else _checksum(checksum_class)
    options = {} if kind is None else {"checksum": kind}
    with ProgressLine() as progress, open_archive(folder, **options) as store:
        report = store.verify(progress)
        catalog = store.catalog
        by_stream = _by_recording(report.faults)
        entries: list[CatalogEntry] = [] if catalog is None else catalog.entries
        if recording is not None:
            entries = [entry_of(catalog, recording)] if isinstance(catalog, Catalog) else []
        code = _general(by_stream, as_json) if recording is None else 0
        for entry in entries:
            faults = by_stream.get(str(entry.recording_id), [])
            if not recording_of(entry).is_deleted:
                faults = _checksum_faults(entry, kind) or faults
            code |= _tell(store, entry, _of_files(store, entry, faults, every), as_json)
    return code


def _checksum(name: str) -> str:
    """``org.agrona.checksum.Crc32`` -> ``crc32``. Raises :class:`UsageError`."""
    kind = name.rpartition(".")[2].lower()
    if kind not in CHECKSUMS:
        raise UsageError("-checksum", found=repr(name), expected="org.agrona.checksum.Crc32 or ...Crc32c")
    return kind


def _by_recording(faults: list[Fault]) -> dict[str, list[Fault]]:
    """Faults, without notes, by recording; those of none under ``catalog``."""
    found: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        if fault.severity is Severity.FAULT and fault.code != "recording-invalid":
            found[fault.stream or CATALOG].append(fault)
    return found


def _general(by_stream: dict[str, list[Fault]], as_json: bool) -> int:
    """What is wrong with no recording, but with the folder."""
    faults = by_stream.get(CATALOG, [])
    for fault in faults:
        click.echo(json_line({"recording_id": None, "fault": fault.to_dict()}) if as_json else f"ERR: {_text(fault)}")
    return NOT_DONE if faults else 0


def _checksum_faults(entry: CatalogEntry, kind: str | None) -> list[Fault]:
    """With ``-checksum``, the descriptor's own must be right: else nothing more of the recording is looked at."""
    if kind is None:
        return []
    computed = _signed(Crc32(CHECKSUMS[kind]).checksum(entry.body))
    if computed == entry.checksum:
        return []
    found, expected = f"checksum {entry.checksum}", str(computed)
    stream = str(entry.recording_id)
    return [Fault("catalog-checksum", "archive.catalog", entry.offset, found, expected, stream=stream)]


def _of_files(store: ArchiveStore, entry: CatalogEntry, faults: list[Fault], every: bool) -> list[Fault]:
    """Without ``-a``, only those of the last segment file, and of no segment file."""
    bases = store.segment_index().get(entry.recording_id, [])
    last = max(bases, default=None)
    if every or last is None:
        return faults
    kept = []
    for fault in faults:
        parsed = parse_segment_name(fault.file)
        if parsed is None or parsed[1] >= last or fault.code == "segment-missing":
            kept.append(fault)
    return kept


def _tell(store: ArchiveStore, entry: CatalogEntry, faults: list[Fault], as_json: bool) -> int:
    """A line about one recording; the exit code."""
    skipped = recording_of(entry).is_deleted
    if as_json:
        record: dict[str, Any] = {"recording_id": entry.recording_id, "state": entry.state, "skipped": skipped}
        record |= {"ok": not faults, "faults": [fault.to_dict() for fault in faults]}
        click.echo(json_line(record))
    elif skipped and not faults:
        click.echo(f"(recordingId={entry.recording_id}) skipping: {entry.state}")
    elif not faults:
        click.echo(f"(recordingId={entry.recording_id}) OK")
    else:
        click.echo(_error(store, entry, faults[0]))
        if len(faults) > 1:
            complain(f"recording {entry.recording_id}: {len(faults) - 1} more faults; --json lists all")
    return NOT_DONE if faults else 0


def _error(store: ArchiveStore, entry: CatalogEntry, fault: Fault) -> str:
    """The original's words where it has some, else everlog's."""
    own = f"recordingId={entry.recording_id}"
    if fault.code == "catalog-checksum":
        actual = entry.checksum
        return f"({own}) ERR: invalid Catalog checksum: expected={fault.expected}, actual={actual}"
    if fault.file.endswith(".rec"):
        own += f", file={printable(os.path.abspath(os.path.join(store.path, fault.file)))}"
    if fault.code == "frame-checksum":
        recorded, computed = (_signed(int(text.rpartition(" ")[2], 16)) for text in (fault.found, fault.expected))
        return f"({own}) ERR: checksum failed recorded={recorded} (expected={computed})"
    return f"({own}) ERR: {_text(fault)}"


def _text(fault: Fault) -> str:
    place = "" if fault.offset is None else f" at offset {fault.offset}"
    return printable(f"{fault.code}{place}: found {fault.found}, expected {fault.expected}")


def _signed(number: int) -> int:
    """A checksum as Java's ``int``."""
    return number - (1 << 32) if number >= 1 << 31 else number
