"""``everlog ls`` and ``everlog info``: list a store's streams, and show its state."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.faults import FaultPrinter, print_warnings
from everlog.cli.opening import open_given, store_arguments
from everlog.cli.progress import ProgressLine
from everlog.cli.text import json_line, outline, print_table, scalar
from everlog.core.report import Fault
from everlog.core.store import Store, StreamInfo

HEADERS = ("stream", "first", "last", "end", "records", "bytes", "details")
NUMBERS = frozenset({1, 2, 3, 4, 5})
DETAIL_WIDTH = 100
LAGS = ("lag_messages", "lag_bytes", "lag_seconds")
LAG_HEADERS = ("subscriber", "checkpoint", *LAGS)
LAG_NUMBERS = frozenset({2, 3, 4})


@click.command
@store_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each stream.")
@click.option("--count", is_flag=True, help="If the store does not know the number of records, count them by reading.")
@click.option("--all", "include_all", is_flag=True, help="Include streams that are marked as deleted.")
def ls(path: str, family: str | None, as_json: bool, count: bool, include_all: bool, **options: Any) -> int:
    """List the streams of the store at PATH: first and last address, records, bytes."""
    faults = FaultPrinter()
    with open_given(path, family, options | {"include_all": include_all}) as store:
        infos = store.streams(include_all=include_all)
        if count:
            infos = count_records(store, infos, faults)
        warnings = store.warnings()
    if as_json:
        for item in infos:
            click.echo(json_line(as_dict(item) | warnings_of(warnings)))
    else:
        if infos:
            print_table(HEADERS, [_cells(item) for item in infos], NUMBERS)
        print_lags(infos)
        print_warnings(warnings or ())
    faults.close()
    return faults.exit_code


@click.command
@store_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(path: str, family: str | None, as_json: bool, **options: Any) -> None:
    """Show the state of the store at PATH: descriptors, subscriptions, clients, ..., whatever its family has."""
    with open_given(path, family, options) as store:
        state = store.info()
        warnings = store.warnings()
    if as_json:
        click.echo(json_line(state | warnings_of(warnings)))
    else:
        click.echo("\n".join(outline(state)))
        print_warnings(warnings or ())


def warnings_of(warnings: list[Fault] | None) -> dict[str, Any]:
    """The ``warnings`` entry for JSON; nothing for a family without such checks."""
    return {} if warnings is None else {"warnings": [fault.to_dict() for fault in warnings]}


def print_lags(infos: list[StreamInfo]) -> None:
    """Print a table of each subscriber's lag, if the streams have subscribers."""
    rows = [
        [subscriber["name"], subscriber["checkpoint"] or "-", *(scalar(subscriber[key]) for key in LAGS)]
        for item in infos
        for subscriber in item.details.get("subscribers") or ()
        if LAGS[0] in subscriber
    ]
    if rows:
        click.echo()
        print_table(LAG_HEADERS, rows, LAG_NUMBERS)


def as_dict(item: StreamInfo) -> dict[str, Any]:
    """A stream as ``ls --json`` prints it."""
    return {
        "family": item.family,
        "stream": item.name,
        "first": item.first,
        "last": item.last,
        "end": item.end,
        "records": item.record_count,
        "bytes": item.byte_count,
        "details": dict(item.details.items()),
    }


def count_records(store: Store, infos: list[StreamInfo], faults: FaultPrinter) -> list[StreamInfo]:
    """Fill in unknown record counts, and first and last addresses, by scanning."""
    with ProgressLine() as progress:
        found = []
        for number, item in enumerate(infos):
            progress(item.name, number, len(infos))
            counted = item if item.record_count is not None else _counted(store, item, faults)
            details = dict(item.details.items()) | store.count_details(item.name)
            found.append(counted._replace(details=details))
    return found


def _counted(store: Store, item: StreamInfo, faults: FaultPrinter) -> StreamInfo:
    count, first, last = 0, item.first, item.last
    with faults.reading(item.name):
        for batch in store.scan(item.name, columns=["address"], on_fault=faults):
            if not batch.row_count:
                continue
            addresses = batch.to_list("address")
            first = addresses[0] if count == 0 else first
            last = addresses[-1]
            count += len(addresses)
    return item._replace(record_count=count, first=first, last=last)


def _cells(item: StreamInfo) -> list[str]:
    values = (item.name, item.first, item.last, item.end, item.record_count, item.byte_count)
    return [*("-" if value is None else str(value) for value in values), _details(item)]


def _details(item: StreamInfo) -> str:
    """As many details as fit on a line; ``--json`` and ``info`` show all of them."""
    text = ""
    for key, value in item.details.items():
        if value is None or isinstance(value, dict | list | tuple):
            continue
        part = f"{key}={scalar(value)}"
        if len(text) + len(part) > DETAIL_WIDTH:
            return text + "..."
        text += part + " "
    return text.rstrip()
