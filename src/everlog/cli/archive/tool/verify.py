"""``everlog archive DIR verify``: checks recordings, and with ``--fix`` repairs their entries."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any, NamedTuple

import click

from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import Catalog, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.checksum import checksum_kind
from everlog.aeron.archive.tool.verification import plan_fix
from everlog.aeron.family_options import Checksum
from everlog.cli.archive.change_options import EXIT_REFUSED, Change, ChangeOptions, change_options
from everlog.cli.archive.recordings import NOT_DONE, entry_of, local_archive, open_archive
from everlog.cli.confirmation import confirmed
from everlog.cli.progress import ProgressLine
from everlog.cli.text import json_line, print_error, printable, warn
from everlog.core.files.writable import writable
from everlog.core.report import Fault, Severity

CATALOG = "catalog"


@click.command
@click.argument("recording", metavar="[RECORDING]", type=click.IntRange(min=0), required=False)
@click.option("-a", "every", is_flag=True, help="Check all segment files, not only the last one of each recording.")
@click.option("-checksum", "--checksum", "checksum_class", metavar="CLASS", help="Check checksums of this class.")
@click.option("--fix", is_flag=True, help="Write stop positions and states, as the original does.")
@click.option("--truncate/--keep", "truncate", default=None, help="With --fix: zero a torn last frame, or keep it.")
@change_options
@click.pass_obj
def verify(
    folder: str,
    recording: int | None,
    every: bool,
    checksum_class: str | None,
    fix: bool,
    truncate: bool | None,
    dry_run: bool,
    backup: str | None,
    no_backup: bool,
    as_json: bool,
) -> int:
    """Check recordings and print (recordingId=N) OK, or ERR with the first fault; --json lists all faults. Without
    --fix nothing is written: no stop position is set, no recording marked, no file cut. CLASS is Crc32 or Crc32c, with
    or without the package of the Java class. Exit code 1 if there are faults.
    """
    kind = None if checksum_class is None else checksum_kind(checksum_class)
    if fix:
        options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json)
        return _fix(folder, Scope(recording, every, kind), options, truncate)
    if dry_run or no_backup or backup is not None or truncate is not None:
        raise click.UsageError("--dry-run, --backup, --no-backup, --truncate and --keep need --fix")
    return _check(folder, Scope(recording, every, kind), as_json)


class Scope(NamedTuple):
    """What to check: one recording or all, each recording's last file or every file, and the kind of checksum."""

    recording: int | None
    every: bool
    kind: Checksum | None


class Found(NamedTuple):
    """A recording's entry and its faults within the scope."""

    entry: CatalogEntry
    faults: list[Fault]


def _check(folder: str, scope: Scope, as_json: bool) -> int:
    with _open(folder, scope) as store:
        by_stream, found = _find_faults(store, scope)
        code = _print_catalog_faults(by_stream, as_json) if scope.recording is None else 0
        for entry, faults in found:
            code |= _print_recording(store, entry, faults, as_json)
    return code


def _fix(folder: str, scope: Scope, options: ChangeOptions, truncate: bool | None) -> int:
    """As the original's verify: check, write, and print the remaining faults."""
    refuse_running(writable(local_archive(folder)))
    question = _Question(truncate)
    with _open(folder, scope) as store:
        by_stream, found = _find_faults(store, scope)
        faults = {entry.recording_id: own for entry, own in found}
        kind = scope.kind or "auto"
        fixes = plan_fix(local_archive(folder), faults, truncates=question, checksum=kind)
        if question.is_open:
            print_error("nothing was changed; pass --truncate to zero torn last frames, --keep to treat them as whole")
            return EXIT_REFUSED
        change = Change("verify --fix", folder, options, fixes.plan)
        change.perform()
        code = 0
        if change.is_done:
            code = _print_catalog_faults(by_stream, options.as_json) if scope.recording is None else 0
            for entry, own in found:
                verdict = fixes.verdicts.get(entry.recording_id)
                code |= _print_recording(store, entry, own if verdict is None else verdict.faults, options.as_json)
                for doubt in () if verdict is None else verdict.doubts:
                    warn(f"recording {entry.recording_id}: treated as whole: {doubt.found}")
                if verdict is not None and verdict.note:
                    warn(f"recording {entry.recording_id}: {verdict.note}")
    change.print_json()
    return code


class _Question:
    """Decides whether to zero a torn last frame: by the options, else by asking. ``is_open`` is set if nobody
    answered."""

    def __init__(self, answer: bool | None) -> None:
        self._answer = answer
        self.is_open = False

    def __call__(self, fault: Fault) -> bool:
        """Whether to zero the torn frame of this fault."""
        if self._answer is not None:
            return self._answer
        text = f"recording {fault.stream}: the last frame, in {fault.file} at offset {fault.offset}, is torn."
        answer = confirmed(f"{text} Zero it? (otherwise it is treated as whole)")
        if answer is None:
            print_error(text)
            self.is_open = True
        return bool(answer)


def _open(folder: str, scope: Scope) -> ArchiveStore:
    return open_archive(folder, checksum=scope.kind or "auto")


def _find_faults(store: ArchiveStore, scope: Scope) -> tuple[dict[str, list[Fault]], list[Found]]:
    """All faults by recording, and the recordings in the scope with theirs."""
    with ProgressLine() as progress:
        by_stream = _by_recording(store.verify(progress).faults)
    catalog = store.folder.catalog
    entries: list[CatalogEntry] = [] if catalog is None else catalog.entries
    if scope.recording is not None:
        entries = [entry_of(catalog, scope.recording)] if isinstance(catalog, Catalog) else []
    found = []
    for entry in entries:
        faults = by_stream.get(str(entry.recording_id), [])
        if not recording_of(entry).is_deleted:
            faults = _checksum_faults(entry, scope.kind) or faults
        found.append(Found(entry, _of_files(store, entry, faults, scope.every)))
    return by_stream, found


def _by_recording(faults: list[Fault]) -> dict[str, list[Fault]]:
    """Faults, without notes, by recording; those of no recording are under ``catalog``."""
    found: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        if fault.severity is Severity.FAULT and fault.code != "recording-invalid":
            found[fault.stream or CATALOG].append(fault)
    return found


def _print_catalog_faults(by_stream: dict[str, list[Fault]], as_json: bool) -> int:
    """Print the faults that concern no single recording; returns the exit code."""
    faults = by_stream.get(CATALOG, [])
    for fault in faults:
        click.echo(json_line({"recording_id": None, "fault": fault.to_dict()}) if as_json else f"ERR: {_text(fault)}")
    return NOT_DONE if faults else 0


def _checksum_faults(entry: CatalogEntry, kind: Checksum | None) -> list[Fault]:
    """With ``-checksum``, the fault of a descriptor whose checksum is wrong: it hides the recording's other faults."""
    if kind is None:
        return []
    computed = _signed(CHECKSUMS[kind].checksum(entry.body))
    if computed == entry.checksum:
        return []
    found, expected = f"checksum {entry.checksum}", str(computed)
    stream = str(entry.recording_id)
    return [Fault("catalog-checksum", "archive.catalog", entry.offset, found, expected, stream=stream)]


def _of_files(store: ArchiveStore, entry: CatalogEntry, faults: list[Fault], every: bool) -> list[Fault]:
    """Without ``-a``, only the faults in the last segment file or in no segment file."""
    bases = store.folder.segment_index().get(entry.recording_id, [])
    last = max(bases, default=None)
    if every or last is None:
        return faults
    kept = []
    for fault in faults:
        parsed = parse_segment_name(fault.file)
        if parsed is None or parsed[1] >= last or fault.code == "segment-missing":
            kept.append(fault)
    return kept


def _print_recording(store: ArchiveStore, entry: CatalogEntry, faults: list[Fault], as_json: bool) -> int:
    """Print one recording's line; returns the exit code."""
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
            print_error(f"recording {entry.recording_id}: more faults: {len(faults) - 1}; --json lists all")
    return NOT_DONE if faults else 0


def _error(store: ArchiveStore, entry: CatalogEntry, fault: Fault) -> str:
    """A recording's first fault: in the original's words if it knows this fault, else in everlog's."""
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
    return printable(f"{fault.code}{place}: {fault.found}; expected {fault.expected}")


def _signed(number: int) -> int:
    """A checksum as Java's ``int``."""
    return number - (1 << 32) if number >= 1 << 31 else number
