"""``everlog archive DIR checksum``: writes checksums into frames and the catalog."""

from __future__ import annotations

import os

import click

from everlog.aeron.archive.tool.checksum import FrameFault, checksum_kind, plan_checksum
from everlog.cli.archive.change_options import EXIT_NOT_DONE, Change, ChangeOptions, change_options
from everlog.cli.archive.recordings import local_archive
from everlog.cli.progress import ProgressLine
from everlog.cli.text import printable


@click.command
@click.argument("checksum_class", metavar="CLASS")
@click.argument("recording", metavar="[RECORDING]", type=click.IntRange(min=0), required=False)
@click.option("-a", "every", is_flag=True, help="Process all segment files, not only the last one of each recording.")
@change_options
@click.pass_obj
def checksum(
    folder: str,
    checksum_class: str,
    recording: int | None,
    every: bool,
    dry_run: bool,
    backup: str | None,
    no_backup: bool,
    as_json: bool,
) -> int:
    """Write checksums into the session id fields of data frames, in the last segment file of RECORDING or of each
    recording (with -a in all segment files), and into the catalog. CLASS is Crc32 or Crc32c, with or without the
    package of the Java class. Exit code 1 if a file's frames can't be followed; that file is not changed.
    """
    options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json)
    kind = checksum_kind(checksum_class)
    with ProgressLine() as progress:
        plan, faults = plan_checksum(local_archive(folder), kind, recording, every=every, progress=progress)
    change = Change("checksum", folder, options, plan)
    code = change.perform()
    if not as_json:
        for fault in faults:
            click.echo(_text(folder, fault))
    change.print_json(
        faults=[{"recording_id": f.recording_id, "file": f.file, "offset": f.offset, "found": f.found} for f in faults]
    )
    return code or (EXIT_NOT_DONE if faults else 0)


def _text(folder: str, fault: FrameFault) -> str:
    file = printable(os.path.abspath(os.path.join(folder, fault.file)))
    place = f"(recordingId={fault.recording_id}, file={file})"
    return f"{place} ERR: {fault.found} at offset {fault.offset}; the file was not changed"
