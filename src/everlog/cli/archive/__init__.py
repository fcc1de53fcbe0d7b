"""``everlog archive``: a look at an archive's folder, as Aeron's ArchiveTool gives it. It only reads."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "count-entries": "How many valid recordings there are.",
    "describe": "The mark file, and the valid recordings; or one recording.",
    "describe-all": "The mark file, and all recordings with their states.",
    "dump": "Recordings, frame by frame.",
    "errors": "The distinct errors of the archive and of the media driver.",
    "pid": "The process id of the archive.",
    "verify": "Whether recordings are sound, a line for each.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
@click.argument("folder", metavar="DIR")
@click.pass_context
def archive(ctx: click.Context, folder: str) -> None:
    """Look at the Aeron archive whose folder is DIR, with the verbs and lines of Aeron's ArchiveTool. Nothing is
    changed, not by verify either, and the archive need not run.
    """
    ctx.obj = folder
