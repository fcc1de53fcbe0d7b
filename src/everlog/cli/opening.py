"""PATH and the options for opening it. An option that the store's family does not have is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.cli.text import warn
from everlog.core.family.record import StoreOption
from everlog.core.option_kinds import NUMBER, OptionKind
from everlog.core.options import option_names
from everlog.core.store import Store
from everlog.errors import UsageError
from everlog.stores import FAMILIES, family_named, family_of, storage_of, store_class, store_options

if TYPE_CHECKING:
    from everlog.sbe import SbeColumns, Schema

F = TypeVar("F", bound=Callable[..., Any])


def parameter_of(option: StoreOption) -> str:
    """The name under which click passes an option."""
    return str(option.flag).removeprefix("--").replace("-", "_")


def command_line_options() -> list[StoreOption]:
    """The families' options that have a command-line flag."""
    return [option for option in store_options() if option.flag is not None]


def store_arguments(command: F) -> F:
    """Decorator: adds PATH, ``--family`` and the options of all families."""
    for option in reversed(command_line_options()):
        # None as the default distinguishes an option that was not given from one given with its default value.
        names = (str(option.flag), parameter_of(option))
        command = click.option(*names, default=None, help=option.help, **_click_type(option.kind))(command)
    command = click.option("--family", type=click.Choice(list(FAMILIES)), help="Treat PATH as a store of this family.")(
        command
    )
    return click.argument("path")(command)


def _click_type(kind: OptionKind) -> dict[str, Any]:
    if kind.is_flag:
        return {"is_flag": True}
    if kind.choices:
        return {"type": click.Choice(list(kind.choices))}
    return {"type": click.Path(dir_okay=False) if kind.is_file else None}


def sbe_schema_option(command: F) -> F:
    """Decorator: adds ``--sbe-schema``. The schema is read and checked before anything is opened."""

    def read(_: click.Context, __: click.Parameter, value: str | None) -> Schema | None:
        if value is None:
            return None
        from everlog.sbe import load_schema

        return load_schema(value)

    text = "Decode payloads with this SBE schema (an XML file)."
    return click.option("--sbe-schema", metavar="FILE", callback=read, help=text)(command)


def sbe_columns(given: dict[str, Any], message: str | None = None, *, only: bool = False) -> SbeColumns | None:
    """The decoder of payloads, if ``--sbe-schema`` was given; messages it can't decode become warnings. With ``only``,
    records of other messages are left out, which needs pyarrow. Raises :class:`UsageError` with ``--frames``: a
    message's later fragments may look like a message of their own."""
    if given["sbe_schema"] is None:
        return None
    if given["frames"]:
        if str(given.get("timestamp_from")).startswith("sbe:") and message is None:
            return None  # the schema is only used for the times
        raise UsageError(
            "--sbe-schema",
            found="--frames",
            message="--sbe-schema and --frames exclude each other: a fragment is not a message",
        )
    from everlog.sbe import SbeColumns

    if not only:
        return SbeColumns(given["sbe_schema"], message, warn)
    from everlog.pipelines.scan.arrow_batches import keep_rows

    return SbeColumns(given["sbe_schema"], message, warn, keep_rows=keep_rows)


def open_given(path: str, family: str | None, given: dict[str, Any], *, warn_of_key: bool = True) -> Store:
    """Open PATH with the options that the user gave. Raises :class:`UsageError` for an option that the family does not
    have."""
    storage = storage_of(path)
    record = family_named(family or family_of(storage))
    kind = store_class(record.name)
    known = option_names(kind.options_class)
    values: dict[str, Any] = {}
    for option in command_line_options():
        value = given.get(parameter_of(option))
        if value is None:
            continue
        if option.field not in known:
            message = f"{option.flag} does not apply to {record.title}s"
            raise UsageError(str(option.flag), found=record.name, expected="another family", message=message)
        values[option.field] = option.kind.read(str(option.flag), value) if option.kind is NUMBER else value
        if option.warning and warn_of_key:
            warn(option.warning)
    if given.get("sbe_schema") is not None and "sbe_schema" in known:
        values["sbe_schema"] = given["sbe_schema"]
    if given.get("include_all") and "include_all" in known:
        values["include_all"] = True
    return kind.open(storage, values)
