"""``jlogctl alter``: changes a journal's settings."""

from __future__ import annotations

import click

from everlog.cli.jlogctl.arguments import Printer, attempt, journal_options, open_journal
from everlog.cli.jlogctl.create import SAFETIES, setting_options
from everlog.cli.jlogctl.meta import as_plain
from everlog.errors import UsageError
from everlog.jlog.reading.journal import Journal

SAME = {"on": ("lz4", "null"), "lz4": ("lz4",), "null": ("null",), "off": ("none",)}
"""Maps a word on the command line to the names that the same compression has in ``meta --json``."""


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
@setting_options
def alter(
    path: str,
    verbose: int,
    as_json: bool,
    segment_size: int | None,
    precommit: int | None,
    compression: str | None,
    safety: str | None,
) -> int:
    """Change settings; the others stay. The compression can't be changed: the journal's messages have it already."""
    from everlog.jlog.writing.creation import alter as change

    if segment_size is None and precommit is None and compression is None and safety is None:
        raise UsageError("alter", found="nothing to change", message="alter needs -s, -p, -c or --safety")

    def run() -> int:
        check_compression(open_journal(path), compression)
        change(
            path,
            segment_bytes=segment_size,
            safety=None if safety is None else SAFETIES[safety],
            buffer_bytes=precommit,
        )
        Printer(path, as_json, quiet=not as_json)("", {"altered": as_plain(open_journal(path))})
        return 0

    return attempt(run)


def check_compression(journal: Journal, word: str | None) -> None:
    """Raises :class:`UsageError` unless the journal has this compression already."""
    found = as_plain(journal)["compression"]
    if word is not None and found not in SAME[word]:
        text = f"can't change the compression from {found} to {word}: all messages of a journal have the same"
        raise UsageError("-c", found=word, expected=str(found), hint="create another journal", message=text)
