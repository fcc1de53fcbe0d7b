"""``everlog archive DIR mark-invalid``: marks a recording as invalid."""

from __future__ import annotations

import click

from everlog.aeron.archive.tool.states import plan_state
from everlog.cli.archive.change_options import Change, ChangeOptions, change_options
from everlog.cli.archive.recordings import local_archive


@click.command
@click.argument("recording", metavar="RECORDING", type=click.IntRange(min=0))
@change_options
@click.pass_obj
def mark_invalid(folder: str, recording: int, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Mark a recording as invalid: archives no longer serve it, and compact removes it. Its files stay."""
    return mark(folder, recording, "INVALID", dry_run=dry_run, backup=backup, no_backup=no_backup, as_json=as_json)


def mark(
    folder: str, recording: int, state: str, *, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool
) -> int:
    """Set a recording's state and print the line that the original prints; returns the exit code."""
    options = ChangeOptions(dry_run=dry_run, backup=backup, no_backup=no_backup, as_json=as_json)
    change = Change(f"mark-{state.lower()}", folder, options, plan_state(local_archive(folder), recording, state))
    code = change.perform()
    if change.done and not options.as_json:
        click.echo(f"(recordingId={recording}) changed state to {state}")
    change.print_json()
    return code
