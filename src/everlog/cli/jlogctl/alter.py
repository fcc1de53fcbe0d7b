"""``jlogctl alter``: change a journal's settings."""

from __future__ import annotations

import click

from everlog.cli.jlogctl.arguments import Printer, attempt, journal_options, open_journal
from everlog.cli.jlogctl.create import SAFETIES, setting_options
from everlog.cli.jlogctl.meta import as_plain
from everlog.errors import UsageError
from everlog.jlog.reading.journal import Journal

SAME = {"on": ("lz4", "null"), "lz4": ("lz4",), "null": ("null",), "off": ("none",)}
"""Word on the command line to what the journal's compression is called in ``meta --json``."""


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
    """Change settings; what is not given stays. The compression is that of the messages which are there: it can't be
    changed."""
    from everlog.jlog.writing.creation import alter as change

    if segment_size is None and precommit is None and compression is None and safety is None:
        raise UsageError("alter", found="nothing to change", expected="-s, -p, -c or --safety")

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
        raise UsageError(
            "-c",
            found=f"{word} for a journal with compression {found}",
            expected="what it has: messages of two kinds can't be in one journal",
            hint="create another journal",
        )
