"""``everlog archive``: inspects and changes an archive's folder, as Aeron's ArchiveTool does."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "attach": "Re-attach earlier segment files to a recording.",
    "delete-detached-segments": "Delete segment files before a recording's start.",
    "detach": "Detach a recording's oldest segments; their files stay.",
    "migrate-segments": "Move a recording's segments to an adjoining recording.",
    "purge": "Delete the oldest segments, after copying them or running a script.",
    "purge-recording": "Delete a recording and its files.",
    "truncate": "Cut off the end of a recording.",
    "undo": "Restore what a verb removed or overwrote.",
}
TOOL_VERBS = {
    "capacity": "Print the catalog file's length, or increase it.",
    "checksum": "Write checksums into frames and the catalog.",
    "compact": "Remove invalid recordings and their files.",
    "count-entries": "Print the number of valid recordings.",
    "delete-orphaned-segments": "Remove segment files that belong to no recording.",
    "describe": "Print the mark file and the valid recordings, or one recording.",
    "describe-all": "Print the mark file and all recordings with their states.",
    "dump": "Print recordings frame by frame.",
    "errors": "Print the distinct errors of the archive and its media driver.",
    "mark-invalid": "Mark a recording as invalid.",
    "mark-valid": "Mark an invalid recording as valid.",
    "max-entries": "Deprecated: see capacity.",
    "migrate": "Upgrade an old archive to the current format.",
    "pid": "Print the archive's process id.",
    "verify": "Check recordings and print a line for each.",
}
"""The verbs that ArchiveTool has, too."""
LIVE_VERBS = {
    "extend": "Continue a stopped recording (running archive).",
    "list": "List recordings, or what is being recorded (running archive).",
    "replay": "Print a recording's messages as they are replayed (running archive).",
    "signals": "Print recordings as they start and stop (running archive).",
    "start": "Record a stream (running archive).",
    "stop": "Stop recordings (running archive).",
}
"""The verbs that only a running archive has."""


@click.command(
    cls=VerbGroup,
    verbs=VERBS,
    package=__name__,
    more_verbs={f"{__name__}.tool": TOOL_VERBS, f"{__name__}.live": LIVE_VERBS},
)
@click.argument("folder", metavar="DIR|CHANNEL")
@click.pass_context
def archive(ctx: click.Context, folder: str) -> None:
    """Inspect or change the Aeron archive in the folder DIR, with the verbs and the output of Aeron's ArchiveTool, or a
    running one, by DIR or its control CHANNEL.

    The verbs that only read (describe, dump, verify, ...) work whether the archive is running or not. attach, detach,
    delete-detached-segments, migrate-segments, purge-recording and truncate go through the control channel of a running
    one; the other verbs that write refuse then. capacity BYTES, checksum, compact, delete-orphaned-segments,
    mark-valid, mark-invalid and migrate have --dry-run, and keep what they remove or overwrite in a folder next to DIR.
    """
    ctx.obj = folder
