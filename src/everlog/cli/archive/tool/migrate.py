"""``everlog archive DIR migrate``: upgrades an old archive to the current format."""

from __future__ import annotations

import os

import click

from everlog.aeron.archive.tool.migration import LATEST, Migration, full_version, plan_migrate
from everlog.cli.archive.change_options import Change, ChangeOptions, change_options, yes_option
from everlog.cli.archive.recordings import local_archive
from everlog.cli.text import printable

QUESTION = "This renames segment files and rewrites catalog and mark file; older archives can't use them afterwards."


@click.command
@yes_option
@change_options
@click.pass_obj
def migrate(folder: str, yes: bool, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Upgrade an archive of Aeron 1.7 to 1.31 (catalog 0.x, 1.x, 2.x) to the current format. Asks first; if stdin is
    not a terminal, a line of it is the answer (y or yes). Continues an interrupted migration.
    """
    options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json, yes=yes)
    plan, found = plan_migrate(local_archive(folder))
    change = Change("migrate", folder, options, plan)
    code = change.perform(QUESTION)
    if change.is_done and not as_json:
        click.echo("\n".join(_lines(folder, found)))
    mark = None if found.mark_version is None else full_version(found.mark_version)
    change.print_json(mark_version=mark, catalog_version=full_version(found.catalog_version))
    return code


def _lines(folder: str, found: Migration) -> list[str]:
    mark = "none" if found.mark_version is None else full_version(found.mark_version)
    lines = [
        f"MarkFile version={mark}",
        f"Catalog version={full_version(found.catalog_version)}",
        f"Latest version={full_version(LATEST)}",
        *(f"Migration step to {full_version(version)}" for version in found.versions),
    ]
    path = printable(os.path.abspath(folder))
    for recording_id, names in found.renames.items():
        own = f"(recordingId={recording_id})"
        lines += [f"{own} renaming {path}/{old} -> {path}/{new}" for old, new in names]
        lines.append(f"{own} OK")
    return lines
