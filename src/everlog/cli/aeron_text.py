"""Formats times, SBE messages and error logs as Aeron's Java tools print them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from everlog.aeron.error_log import DistinctError
from everlog.aeron.transport.format.cnc_file import driver_errors
from everlog.cli.driver.sampling import date_text, local_time, storage_at
from everlog.cli.text import print_error, printable
from everlog.errors import EverlogError


def clock_text(start_ms: int, activity_ms: int) -> str:
    """``06:08:53 (start: 2026-11-21 06:08:52, activity: 1969-12-31 23:59:59)``: the time now, and the times when the
    component started and was last active, all in local time. -1 is the last second before 1970."""
    now = local_time(time.time_ns() // 1_000_000)
    return f"{now:%H:%M:%S} (start: {second_text(start_ms)}, activity: {second_text(activity_ms)})"


def second_text(timestamp_ms: int) -> str:
    """``2026-11-21 06:08:52``."""
    moment = local_time(timestamp_ms)
    return f"{timestamp_ms}ms" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def camel(name: str) -> str:
    """``header_length`` -> ``headerLength``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def sbe_text(
    name: str,
    template_id: int,
    schema_id: int,
    version: tuple[int, int],
    block_length: tuple[int, int],
    fields: Mapping[str, Any],
) -> str:
    """A message as generated SBE decoders print it. ``version`` and ``block_length`` are pairs: the writer's value and
    the schema's own. Texts are quoted, names are in camel case."""
    head = "|".join(
        (
            f"sbeTemplateId={template_id}",
            f"sbeSchemaId={schema_id}",
            f"sbeSchemaVersion={_acting(version)}",
            f"sbeBlockLength={_acting(block_length)}",
        )
    )
    body = "|".join(f"{camel(key)}={_value(value)}" for key, value in fields.items())
    return f"[{name}]({head}):{body}"


def _acting(pair: tuple[int, int]) -> str:
    acting, own = pair
    return str(own) if acting == own else f"{acting}/{own}"


class Name(str):
    """The name of an enumeration's value, which is printed without quotes."""


def _value(value: Any) -> str:
    return f"'{printable(value)}'" if isinstance(value, str) and not isinstance(value, Name) else str(value)


def error_log_lines(errors: Iterable[DistinctError]) -> Iterator[str]:
    """The lines of a distinct error log: each error with its number of observations, then the number of errors."""
    count = 0
    for error in errors:
        count += 1
        first, last = date_text(error.first_observation_timestamp), date_text(error.last_observation_timestamp)
        yield ""
        yield f"{error.observation_count} observations from {first} to {last} for:"
        yield from ("\t".join(printable(part) for part in line.split("\t")) for line in error.text.split("\n"))
    yield ""
    yield f"{count} distinct errors observed." if count else "0 distinct errors observed"


def load_driver_errors(folder: str) -> list[DistinctError] | None:
    """The driver's distinct errors. ``None``, after a line on stderr, if its folder can't be read, as for a copy of
    the archive on another machine."""
    try:
        return driver_errors(storage_at(folder))
    except EverlogError as error:
        print_error(f"can't read the media driver's errors: {error}")
        return None
