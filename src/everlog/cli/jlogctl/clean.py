"""``jlogctl clean``: delete what every subscriber is done with, and what is left over."""

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
    """Delete the segments that every subscriber is done with. Without subscribers nothing is deleted, and never the
    segment that is written now."""
    code = attempt(lambda: clean_one(path, Printer(path, as_json, quiet=not as_json), is_told=verbose > 0))
    check_ownership(path)
    return code


def clean_one(path: str, out: Printer, *, is_told: bool) -> int:
    """Clean a journal; with ``is_told`` a line on stderr for each segment that went."""
    from everlog.jlog.subscribing.removal import clean as remove

    journal = open_journal(path)
    holders = read_holders(journal.storage)
    if not holders:
        print_error(
            f"note: {path}: no subscribers, so nothing is deleted (a subscriber says what is not needed any more)"
        )
        out("", {"removed": []})
        return 0
    check_holders(journal, holders)
    if None in holders:
        warn(f"{path}: a checkpoint that can't be read holds every segment (jlogctl subscriber -l shows it)")
    removed = [segment_name(log) for log in remove(path)]
    if is_told:
        for name in removed:
            print_error(f"note: {path}: deleted {name}")
    out("", {"removed": removed})
    return NOT_DONE if None in holders else 0


def check_holders(journal: Journal, holders: list[int | None]) -> None:
    """Raises :class:`CorruptData` for a checkpoint in a segment that never was: what its subscriber needs is not known,
    and it would hold nothing."""
    # A subscriber that is done with the last segment may be in the one behind it.
    highest = max(journal.metastore.storage_log or 0, journal.last_log or 0) + 1
    for log in holders:
        if log is not None and log > highest:
            raise CorruptData(
                journal.storage.root,
                found=f"a checkpoint in segment {log:08x}",
                expected=f"{highest:08x} or before",
                hint="nothing was deleted; jlogctl repair sets the checkpoint anew",
            )
