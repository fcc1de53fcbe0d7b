"""PATH and the options that say how to open it. A family's own options reach it only where it knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.cli.text import warn
from everlog.core.options import option_names
from everlog.core.store import Store
from everlog.errors import UsageError
from everlog.stores import FAMILIES, family_of, storage_of, store_class

if TYPE_CHECKING:
    from everlog.sbe import SbeColumns, Schema

KEY_VARIABLE = "NATS_STREAMING_ENCRYPTION_KEY"
"""Environment variable that the original server takes its key from."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FamilyOption:
    """A command line option that fills the field ``name`` of a family's options class."""

    flag: str
    name: str
    help: str
    type: Any = None
    is_flag: bool = False

    @property
    def parameter(self) -> str:
        """The name under which click passes it."""
        return self.flag.removeprefix("--").replace("-", "_")


FAMILY_OPTIONS = (
    FamilyOption(
        "--checksum",
        "checksum",
        "Aeron: checksum recorded in the frames; auto tries.",
        click.Choice(["auto", "none", "crc32", "crc32c"]),
    ),
    FamilyOption(
        "--timestamp-from",
        "timestamp_from",
        "Aeron: where a record's time is: reserved_value:ns, :us or :ms, or sbe:FIELD, with a unit or not.",
    ),
    FamilyOption("--archive-dir", "archive_dir", "Aeron Cluster: the node's archive, where it is not beside PATH."),
    FamilyOption("--pre-commit", "pre_commit", "JLog: read the unflushed pre-commit buffer too.", None, True),
    FamilyOption(
        "--encryption-key-file",
        "encryption_key_file",
        f"NATS Streaming: file with the key (or set {KEY_VARIABLE}).",
        click.Path(dir_okay=False),
    ),
    FamilyOption("--encryption-key", "encryption_key", "NATS Streaming: the key; it shows in process lists."),
    FamilyOption("--crc-poly", "crc_poly", "NATS Streaming: CRC-32 polynomial, reversed form, such as 0xEDB88320."),
    FamilyOption("--max-msgs", "max_msgs", "NATS Streaming: the server's limit of messages a channel."),
    FamilyOption("--max-bytes", "max_bytes", "NATS Streaming: the server's limit of bytes a channel: 64MB, ..."),
    FamilyOption("--max-age", "max_age", "NATS Streaming: the server's limit of age: 24h, ..."),
    FamilyOption("--include-bak", "include_bak", "NATS Streaming: read archived .bak slices too.", None, True),
)


def store_options(command: F) -> F:
    """Decorator: PATH, ``--family`` and the families' own options."""
    for option in reversed(FAMILY_OPTIONS):
        settings: dict[str, Any] = {"is_flag": True} if option.is_flag else {"type": option.type}
        # None tells an option that was not given from one given with its default.
        command = click.option(option.flag, option.parameter, default=None, help=option.help, **settings)(command)
    command = click.option("--family", type=click.Choice(list(FAMILIES)), help="Take PATH as a store of this family.")(
        command
    )
    return click.argument("path")(command)


def sbe_schema_option(command: F) -> F:
    """Decorator: ``--sbe-schema``, which is read and checked before anything is opened."""

    def read(_: click.Context, __: click.Parameter, value: str | None) -> Schema | None:
        if value is None:
            return None
        from everlog.sbe import load_schema

        return load_schema(value)

    text = "Decode payloads by this SBE schema, an XML file."
    return click.option("--sbe-schema", metavar="FILE", callback=read, help=text)(command)


def sbe_columns(given: dict[str, Any], message: str | None = None, *, only: bool = False) -> SbeColumns | None:
    """What decodes payloads, if that was asked for; what it can't decode becomes warnings. With ``only`` records of
    other messages are left out, which takes pyarrow. Raises :class:`UsageError` where payloads are fragments: the bytes
    of a later one may look like a message."""
    if given["sbe_schema"] is None:
        return None
    if given["frames"]:
        if str(given.get("timestamp_from")).startswith("sbe:") and message is None:
            return None  # the schema is there for the times
        raise UsageError("--sbe-schema", expected="not with --frames: a fragment is no message")
    from everlog.sbe import SbeColumns

    if not only:
        return SbeColumns(given["sbe_schema"], message, warn)
    from everlog.pipelines.scan.arrow_batches import keep_rows

    return SbeColumns(given["sbe_schema"], message, warn, keep_rows=keep_rows)


def open_given(path: str, family: str | None, given: dict[str, Any], *, warn_of_key: bool = True) -> Store:
    """Open PATH with the options that the user gave. Raises :class:`UsageError` for one that the family does not
    have."""
    storage = storage_of(path)
    kind = store_class(family or family_of(storage))
    known = option_names(kind.options_class)
    values: dict[str, Any] = {}
    for option in FAMILY_OPTIONS:
        value = given.get(option.parameter)
        if value is None:
            continue
        if option.name not in known:
            raise UsageError(option.flag, found=f"a store of family {kind.family}", expected="a family that has this")
        values[option.name] = value
    if given.get("sbe_schema") is not None and "sbe_schema" in known:
        values["sbe_schema"] = given["sbe_schema"]
    if given.get("include_all") and "include_all" in known:
        values["include_all"] = True
    if "encryption_key" in values and warn_of_key:
        warn(f"--encryption-key shows in process lists; --encryption-key-file and {KEY_VARIABLE} do not")
    return kind.open(storage, values)
