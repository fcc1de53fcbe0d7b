"""``jlogctl meta``: prints the metastore's fields."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.jlogctl.arguments import Printer, journal_options, open_journal
from everlog.cli.text import warn
from everlog.errors import UsageError
from everlog.jlog.format.framing import Framing, Provider
from everlog.jlog.format.metastore import SAFETY
from everlog.jlog.reading.journal import Journal

FLAGS = {
    "-c": ("compression", "Print only the compression."),
    "-f": ("safety", "Print only the safety."),
    "-l": ("storagelog", "Print only the segment that is being written."),
    "-m": ("magic", "Print only the magic of the messages' headers."),
    "-p": ("precommit", "Print only the size of the pre-commit buffer."),
    "-s": ("segmentsize", "Print only the size at which a segment is finished."),
}
ORDER = ("magic", "storagelog", "compression", "safety", "precommit", "segmentsize")
WORD_WIDTH = 15
UNKNOWN = "unknown"
WORDS = {Provider.PLAIN: "off", Provider.NULL: "on", Provider.LZ4: "lz4", Provider.UNKNOWN: UNKNOWN}
"""The original prints ``on`` for the null provider, and ``unknown`` for LZ4."""


def _flags(command: Any) -> Any:
    for flag in reversed(FLAGS):
        name, text = FLAGS[flag]
        command = click.option(flag, f"--{name}", name, is_flag=True, help=text)(command)
    return command


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
@_flags
def meta(path: str, verbose: int, as_json: bool, **flags: bool) -> int:
    """Show the metastore: all fields with their names, or the value of one field."""
    names = [name for name, is_wanted in flags.items() if is_wanted]
    if len(names) > 1:
        given = [flag for flag, (name, _) in FLAGS.items() if name in names]
        raise UsageError(given[0], message=f"{' and '.join(given)} exclude each other")
    journal = open_journal(path)
    out = Printer(path, as_json)
    for fault in journal.metastore.faults:
        warn(str(fault))
    values = texts(journal)
    wanted = names or ORDER
    if as_json:
        plain = as_plain(journal)
        out("", {name: plain[name] for name in wanted})
    elif names:
        out(values[names[0]], {})
    else:
        out("\n".join(f"{name:{WORD_WIDTH}}{values[name]}" for name in ORDER), {})
    return 1 if journal.metastore.faults else 0


def texts(journal: Journal) -> dict[str, str]:
    """The fields in the original's words; ``unknown`` for a field that is missing or invalid."""
    found = journal.metastore
    provider = None if found.magic is None else Framing(found.magic).provider
    safety = None if found.safety is None else SAFETY[found.safety]
    values = {
        "magic": None if found.magic is None else f"{found.magic:08x}",
        "storagelog": None if found.storage_log is None else f"{found.storage_log:08x}",
        "compression": None if provider is None else WORDS[provider],
        "safety": "metasafe" if safety == "almost_safe" else safety,
        "precommit": str(buffer_bytes(journal)),
        "segmentsize": None if found.unit_limit is None else str(found.unit_limit),
    }
    return {name: UNKNOWN if value is None else value for name, value in values.items()}


def as_plain(journal: Journal) -> dict[str, Any]:
    """The fields with everlog's names for their values; ``None`` for a field that is missing or invalid."""
    found = journal.metastore
    plain = found.to_dict()
    return {
        "magic": plain["magic"],
        "storagelog": found.storage_log,
        "compression": plain["compression"],
        "safety": plain["safety"],
        "precommit": buffer_bytes(journal),
        "segmentsize": found.unit_limit,
    }


def buffer_bytes(journal: Journal) -> int:
    """The size of the pre-commit buffer in bytes; 0 without one."""
    buffer = journal.pre_commit()
    return 0 if buffer is None else buffer.capacity
