"""``jlogctl clean``: deletes segments that every subscriber is done with, and files that crashes left."""

from __future__ import annotations

import click

from everlog.cli.jlogctl.arguments import NOT_DONE, Printer, attempt, journal_options, open_journal
from everlog.cli.jlogctl.ownership import check_ownership
from everlog.cli.jlogctl.segments import read_holders
from everlog.cli.text import print_error, warn
from everlog.errors import CorruptData
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.journal import Journal


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
def clean(path: str, verbose: int, as_json: bool) -> int:
    """Delete the segments that every subscriber is done with. Nothing is deleted without subscribers, and the segment
    that is being written never is."""
    code = attempt(lambda: clean_one(path, Printer(path, as_json, quiet=not as_json), verbose=verbose > 0))
    check_ownership(path)
    return code


def clean_one(path: str, out: Printer, *, verbose: bool) -> int:
    """Clean a journal; with ``verbose`` print a line on stderr for each deleted segment."""
    from everlog.jlog.subscribing.removal import clean as remove

    journal = open_journal(path)
    holders = read_holders(journal.storage)
    if not holders:
        print_error(
            f"note: {path}: no subscribers, so nothing is deleted (subscribers decide what is no longer needed)"
        )
        out("", {"removed": []})
        return 0
    check_holders(journal, holders)
    if None in holders:
        warn(f"{path}: an unreadable checkpoint holds every segment (jlogctl subscriber -l shows it)")
    removed = [segment_name(log) for log in remove(path)]
    if verbose:
        for name in removed:
            print_error(f"note: {path}: deleted {name}")
    out("", {"removed": removed})
    return NOT_DONE if None in holders else 0


def check_holders(journal: Journal, holders: list[int | None]) -> None:
    """Raises :class:`CorruptData` for a checkpoint in a segment that never existed: it would hold no segment, although
    nobody knows what its subscriber needs."""
    # A subscriber that is done with the last segment may be in the one after it.
    highest = max(journal.metastore.storage_log or 0, journal.last_log or 0) + 1
    for log in holders:
        if log is not None and log > highest:
            raise CorruptData(
                journal.storage.root,
                found=f"a checkpoint in segment {log:08x}",
                expected=f"{highest:08x} or earlier",
                hint="nothing was deleted; jlogctl repair resets the checkpoint",
            )
