"""``everlog archive DIR capacity``: prints or increases the length of the catalog's file."""

from __future__ import annotations

import click

from everlog.aeron.archive.tool.capacity import plan_capacity
from everlog.cli.archive.change_options import Change, ChangeOptions, change_options
from everlog.cli.archive.recordings import local_archive, open_archive, require_catalog
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line


@click.command
@click.argument("size", metavar="[BYTES]", type=click.IntRange(min=1), required=False)
@change_options
@click.pass_obj
def capacity(folder: str, size: int | None, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Print the length of the catalog's file in bytes. With BYTES, first lengthen it to that, if it is shorter.
    ArchiveTool documents this verb but does not have it.
    """
    if size is None:
        return _print(folder, as_json)
    options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json)
    change = Change("capacity", folder, options, plan_capacity(local_archive(folder), size))
    code = change.perform()
    if options.as_json:
        with open_archive(folder) as store:
            change.print_json(capacity=None if store.folder.catalog is None else store.folder.catalog.size)
    elif change.is_done:
        _print(folder, as_json)
    return code


def _print(folder: str, as_json: bool) -> int:
    faults = FaultPrinter()
    with open_archive(folder) as store:
        size = require_catalog(store, faults).size
    click.echo(json_line({"capacity": size}) if as_json else str(size))
    faults.close()
    return faults.exit_code
