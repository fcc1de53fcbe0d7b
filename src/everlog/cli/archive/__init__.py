"""``everlog archive``: an archive's folder, looked at and changed as by Aeron's ArchiveTool."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "capacity": "How long the catalog's file is; make it longer.",
    "checksum": "Write checksums into frames and catalog.",
    "compact": "Take out recordings that are not valid, and their files.",
    "count-entries": "How many valid recordings there are.",
    "delete-orphaned-segments": "Remove segment files that are no recording's.",
    "describe": "The mark file, and the valid recordings; or one recording.",
    "describe-all": "The mark file, and all recordings with their states.",
    "dump": "Recordings, frame by frame.",
    "errors": "The distinct errors of the archive and of the media driver.",
    "mark-invalid": "Mark a recording as invalid.",
    "mark-valid": "Mark an invalid recording as valid.",
    "max-entries": "Deprecated: see capacity.",
    "migrate": "Make an archive of an old Aeron one that today's opens.",
    "pid": "The process id of the archive.",
    "undo": "Bring back what a verb removed or wrote over.",
    "verify": "Whether recordings are sound, a line for each.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
@click.argument("folder", metavar="DIR")
@click.pass_context
def archive(ctx: click.Context, folder: str) -> None:
    """Look at the Aeron archive whose folder is DIR, or change it, with the verbs and lines of Aeron's ArchiveTool.

    The archive need not run to look at it: describe, dump, verify and so on change nothing. It must not run while it is
    changed: capacity BYTES, checksum, compact, delete-orphaned-segments, mark-valid, mark-invalid, migrate refuse then.
    Each of them has --dry-run, and keeps what it removes or writes over beside DIR.
    """
    ctx.obj = folder
