"""``everlog spark compare``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from everlog.cli.spark.invocation import Running, chosen_options, pair, source_options, spark_options
from everlog.cli.text import json_line, print_error, print_table, printable
from everlog.core.counting import counted
from everlog.errors import UsageError
from everlog.pipelines.choices import COMPARED_BY, ComparedBy
from everlog.stores import FAMILIES, family_named

if TYPE_CHECKING:
    from everlog.spark.jobs.compare import Comparison, Difference

HEADERS = ("stream", "same", "only in A", "only in B", "different", "from", "to", "first difference")
NUMBERS = frozenset(range(1, 5))


@click.command
@click.argument("a", metavar="A")
@click.argument("others", metavar="B...", nargs=-1, required=True)
@click.option("--by", type=click.Choice(COMPARED_BY), default="address", help="How to match records.")
@click.option("--streams", metavar="A=B", multiple=True, help="A stream of A and its name in B; may be repeated.")
@source_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: counts and first difference of each stream."
)
@spark_options
def compare(
    a: str,
    others: tuple[str, ...],
    by: ComparedBy,
    streams: tuple[str, ...],
    option: tuple[str, ...],
    as_json: bool,
    running: Running,
) -> int:
    """Compare the records of A with those of each B: stores, or folders of an export. Exit code 1 if they differ."""
    from everlog.pipelines.scan.options import parse_options
    from everlog.spark.jobs.compare import check_options
    from everlog.spark.jobs.compare import compare as run

    options, names = chosen_options(option), _names(streams)
    check_options(parse_options({**options, "path": a}), names)
    with running.session("compare") as (spark, progress):
        found = [run(spark, a, b, by=by, options=options, names=names, progress=progress) for b in others]
    is_same = all(one.is_same for one in found)
    if as_json:
        click.echo(json_line({"same": is_same, "comparisons": [one.to_dict() for one in found]}))
    else:
        for one in found:
            _print(one)
    return 0 if is_same else 1


def _names(streams: tuple[str, ...]) -> dict[str, str]:
    """``--streams`` as a mapping of A's streams to their names in B. Raises :class:`UsageError` for a stream with two
    names."""
    names: dict[str, str] = {}
    for ours, theirs in (pair("--streams", text) for text in streams):
        if names.setdefault(ours, theirs) != theirs:
            raise UsageError(
                "--streams",
                found=ours,
                message=f"--streams names stream {ours} twice; give one name in B for each stream of A",
            )
    return names


def _print(found: Comparison) -> None:
    click.echo(f"A: {printable(found.a)}")
    click.echo(f"B: {printable(found.b)}")
    rows = []
    for one in found.streams:
        counts = map(str, (one.same, one.only_a, one.only_b, one.different))
        rows.append([one.stream, *counts, one.first or "-", one.last or "-", _text(one.difference)])
    print_table(HEADERS, rows, NUMBERS)
    faults = sum(one.faults_a + one.faults_b for one in found.streams)
    passed = f"; {counted(faults, 'fault')} skipped" if faults else ""
    click.echo(f"{'the same records' if found.is_same else 'not the same'}, by {found.by}{passed}")
    first, second = found.families
    command = family_named(first).compare_command if first in FAMILIES else None
    if command is not None and first == second and not found.is_same:
        names = {"a": shlex.quote(found.a), "b": shlex.quote(found.b)}
        print_error(f"{command.format(**names)} also compares terms and snapshots")


def _text(first: Difference | None) -> str:
    if first is None:
        return "-"
    a = _side("A", first.address_a, first.length_a, first.crc32_a)
    return f"{a}; {_side('B', first.address_b, first.length_b, first.crc32_b)}"


def _side(name: str, address: str | None, length: int | None, crc32: str | None) -> str:
    if address is None or length is None:
        return f"{name}: none"
    return f"{name} {address}: {counted(length, 'byte')}, {crc32}"
