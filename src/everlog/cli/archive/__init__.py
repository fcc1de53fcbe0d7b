"""``everlog archive``: an archive's folder, looked at and changed as by Aeron's ArchiveTool."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "attach": "Let a recording start with segment files that lie before it.",
    "delete-detached-segments": "Delete segment files before a recording's start.",
    "detach": "Let a recording start at a later segment; its files stay.",
    "migrate-segments": "Move a recording's segments to another one that it adjoins.",
    "purge": "Free the oldest segments of recordings, handed over first.",
    "purge-recording": "Delete a recording and its files.",
    "truncate": "Cut off the end of a recording.",
    "undo": "Bring back what a verb removed or wrote over.",
}
TOOL_VERBS = {
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
    "verify": "Whether recordings are sound, a line for each.",
}
"""ArchiveTool's."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__, more_verbs={f"{__name__}.tool": TOOL_VERBS})
@click.argument("folder", metavar="DIR")
@click.pass_context
def archive(ctx: click.Context, folder: str) -> None:
    """Look at the Aeron archive whose folder is DIR, or change it, with the verbs and lines of Aeron's ArchiveTool.

    The archive need not run to look at it: describe, dump, verify and so on change nothing. It must not run while it is
    changed: capacity BYTES, checksum, compact, delete-orphaned-segments, mark-valid, mark-invalid, migrate refuse then.
    Each of them has --dry-run, and keeps what it removes or writes over beside DIR.
    """
    ctx.obj = folder
