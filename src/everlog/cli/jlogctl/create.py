"""``jlogctl create``: creates a journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from everlog.cli.jlogctl.arguments import Printer, attempt, journal_options
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT
from everlog.jlog.options import Compression, Safety
from everlog.jlog.writing.creation import MAX_BUFFER_BYTES, MAX_SEGMENT_BYTES

COMPRESSIONS: dict[str, Compression | None] = {"on": "lz4", "off": None, "lz4": "lz4", "null": "null"}
"""Maps a word on the command line to everlog's name for the compression."""
SAFETIES: dict[str, Safety] = {
    "unsafe": "unsafe",
    "almost_safe": "almost_safe",
    "metasafe": "almost_safe",
    "safe": "safe",
}

F = TypeVar("F", bound=Callable[..., Any])


def setting_options(command: F) -> F:
    """Decorator that adds a journal's settings."""
    command = click.option("--safety", type=click.Choice(list(SAFETIES)), help="What is synced to disk, and when.")(
        command
    )
    command = click.option(
        "-c", "--compression", type=click.Choice(list(COMPRESSIONS)), help="How payloads are stored; on means lz4."
    )(command)
    command = click.option(
        "-p",
        "--precommit",
        type=click.IntRange(0, MAX_BUFFER_BYTES),
        metavar="BYTES",
        help="Size of the pre-commit buffer; 0 for none.",
    )(command)
    return click.option(
        "-s",
        "--segment-size",
        type=click.IntRange(1, MAX_SEGMENT_BYTES),
        metavar="BYTES",
        help="Finish a segment when it has at least BYTES.",
    )(command)


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options(is_required=True)
@setting_options
def create(
    path: str,
    verbose: int,
    as_json: bool,
    segment_size: int | None,
    precommit: int | None,
    compression: str | None,
    safety: str | None,
) -> int:
    """Create an empty journal. PATH must not exist."""
    from everlog.jlog.writing.creation import create as make

    def run() -> int:
        make(
            path,
            segment_bytes=DEFAULT_UNIT_LIMIT if segment_size is None else segment_size,
            safety=SAFETIES[safety or "almost_safe"],
            compression=COMPRESSIONS[compression or "off"],
            buffer_bytes=precommit or 0,
        )
        Printer(path, as_json, quiet=not as_json)("", {"created": True})
        return 0

    return attempt(run)
