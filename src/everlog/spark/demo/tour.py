"""Runs the demo on real input (``make demo``): stores that the real systems wrote, some of them damaged, through one
Spark pipeline.

Unpacks the golden stores, verifies all of them in one job, loads them into one DataFrame, prints a table for each
family, answers a question in SQL, asks Aeron's clusters and drivers some more, and writes Parquet. All output is below
one folder, which a second run recreates.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from everlog.aeron.cluster.family import CLUSTER
from everlog.aeron.transport.family import DRIVER
from everlog.discovery import find_stores
from everlog.errors import EverlogError, MissingDependency, StoreUnavailable
from everlog.spark.demo import aeron as demo_aeron
from everlog.spark.demo import tables as demo_tables
from everlog.spark.java import find_java
from everlog.spark.jobs.verify import StoreToVerify, verify_stores
from everlog.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARK = ".everlog-demo"
"""A file that marks the output folder as the demo's, whose content it may remove."""

WIDTH = 132
"""Columns of the output if it does not go to a terminal."""

REPORT_BUCKET_NS = 10**8
"""Short, since the golden stores were written within seconds."""

SUMMARY = """
    SELECT family, store, stream, count(*) AS records, coalesce(sum(length), 0) AS bytes,
           min_by(address, struct(position, log, marker, sequence)) AS first_address,
           max_by(address, struct(position, log, marker, sequence)) AS last_address,
           date_format(min(timestamp), 'yyyy-MM-dd HH:mm:ss') AS first_time,
           date_format(max(timestamp), 'yyyy-MM-dd HH:mm:ss') AS last_time
    FROM messages GROUP BY family, store, stream
"""

QUESTION = (
    "Which streams of each family hold the most bytes, how long is their median message, and how many stores have them?"
)
ANSWER = """
    WITH streams AS (
        SELECT family, store, stream, count(*) AS records, sum(length) AS bytes,
               percentile_approx(length, 0.5) AS middle
        FROM messages GROUP BY family, store, stream
    ), alike AS (
        SELECT family, stream, records, bytes, middle, count(*) AS stores, min(store) AS store
        FROM streams GROUP BY family, stream, records, bytes, middle
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY family ORDER BY bytes DESC, store, stream) AS rank FROM alike
    )
    SELECT * FROM ranked WHERE rank <= 3 ORDER BY family, rank
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Golden stores that are opened with the same options. ``names`` are parts of the archives' paths that select the
    group's stores; the group without names takes the rest. ``key`` is written to a file, and Spark only gets the file's
    name."""

    folder: str
    names: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    key: bytes | None = None


GROUPS = (
    Group("encrypted", ("encrypted_",), key=b"mykey"),  # the key is in the golden stores' README
    Group("castagnoli", ("crc_poly_castagnoli",), {"crc_poly": 0x82F63B78}),
    Group("plain"),
)
SPARK_NAMES = {"crc_poly": "crcPoly", "encryption_key_file": "encryptionKeyFile"}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Returns the exit code: 0, or 2 if something it needs is missing."""
    parser = argparse.ArgumentParser(prog="python -m everlog.spark.demo.tour", description=__doc__)
    parser.add_argument("--golden", type=Path, default=_golden_folder(), help="folder with the golden stores")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write to")
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        run(console, given.golden, given.output, given.cores)
    except EverlogError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    return 0


def run(console: Console, golden: Path, output: Path, cores: int = 2) -> None:
    """Run all steps, and print each with its duration."""
    begin = time.monotonic()
    prepare_output(output)
    with _step(console, "unpack the golden stores"):
        groups = unpack(golden, output)
    java = find_java()
    with _step(console, f"start Spark on Java {java.version} (found by {java.found_by}), {cores} cores"):
        spark = local_session("everlog demo", cores=cores, log_file=output / "spark.log")
    try:
        _pipeline(console, spark, output, groups)
        write_report(console, spark, output)
    finally:
        spark.stop()
    console.print(
        f"\ndone in {time.monotonic() - begin:.0f} s; warnings of the damaged stores are in {output}/spark.log"
    )


def _pipeline(console: Console, spark: SparkSession, output: Path, groups: list[Group]) -> None:
    stores = output / "stores"
    todo = [
        StoreToVerify(store, group.options) for group in groups for store in find_stores((str(stores / group.folder),))
    ]
    with _step(console, f"verify {len(todo)} stores in one Spark job"):
        reports = verify_stores(spark, todo)
    with _step(console, "load them all into one DataFrame"):
        messages = load(spark, stores, groups).persist()
        messages.createOrReplaceTempView("messages")
        summary = [row.asDict() for row in spark.sql(SUMMARY).collect()]
    for table in demo_tables.family_tables(reports, summary, stores):
        console.print()
        console.print(table)
    console.print()
    console.print(demo_tables.totals(reports, summary))
    console.print(f"\n[bold]{QUESTION}[/bold]")
    console.print(demo_tables.answer([row.asDict() for row in spark.sql(ANSWER).collect()], stores))
    _show_clusters(console, spark, summary)
    _show_drivers(console, reports, stores)
    console.print()
    parquet = output / "parquet"
    with _step(console, f"write Parquet to {parquet}"):
        messages.write.mode("overwrite").partitionBy("family").parquet(str(parquet.resolve()))
        written = spark.read.parquet(str(parquet.resolve())).count()
    read = sum(row["records"] for row in summary)
    console.print(f"{written:,} rows in Parquet, {read:,} read from the stores")


def write_report(console: Console, spark: SparkSession, output: Path) -> None:
    """Write a page with charts of the stores that open without options; without the library, print how to install
    it."""
    from everlog.charts.vega import check_library
    from everlog.spark.statistics.stats import stats

    page = output / "report.html"
    try:
        check_library()
    except MissingDependency as missing:
        console.print(f"no page with charts: they need {missing.hint}", highlight=False, markup=False)
        return
    with _step(console, f"draw rates, sizes, gaps and faults: {page}"):
        found = stats(spark, str(output / "stores" / "plain"), bucket_ns=REPORT_BUCKET_NS)
        found.report("What the golden stores hold").save(page)


def _show_clusters(console: Console, spark: SparkSession, summary: list[dict[str, Any]]) -> None:
    """Show who sent what and when, and whether the members have the same log. Without a cluster nothing is shown."""
    if not any(row["family"] == CLUSTER.name for row in summary):
        return
    console.print()
    console.print(demo_tables.sessions([row.asDict() for row in spark.sql(demo_aeron.SESSIONS).collect()]))
    found = list(demo_aeron.compare_clusters(summary))
    if found:
        console.print()
        console.print(demo_tables.comparisons(found))


def _show_drivers(console: Console, reports: list[dict[str, Any]], stores: Path) -> None:
    folders = [report["store"] for report in reports if report["family"] == DRIVER.name and not report["error"]]
    if not folders:
        return
    drivers = demo_aeron.driver_counters(folders)
    for table in (demo_tables.system_counters(drivers, stores), demo_tables.other_counters(drivers, stores)):
        console.print()
        console.print(table)


def load(spark: SparkSession, stores: Path, groups: list[Group]) -> DataFrame:
    """One DataFrame over all groups, without what is damaged."""
    frames = []
    for group in groups:
        reader = spark.read.format("everlog").option("onFault", "skip")
        for name, value in group.options.items():
            reader = reader.option(SPARK_NAMES[name], value)
        frames.append(reader.load(str(stores / group.folder)))
    frame = frames[-1]  # the plain group has the columns of all families
    for other in frames[:-1]:
        frame = frame.unionByName(other, allowMissingColumns=True)
    return frame


def prepare_output(output: Path) -> None:
    """Make an empty output folder. Raises :class:`StoreUnavailable` rather than remove a folder that the demo did not
    make."""
    if output.exists():
        if not (output / MARK).is_file() and (not output.is_dir() or any(output.iterdir())):
            message = f"{output} was not made by the demo; remove it, or choose another folder with --output"
            raise StoreUnavailable(str(output), found="other files", expected="the demo's folder", message=message)
        shutil.rmtree(output)
    output.mkdir(parents=True)
    (output / MARK).write_text("Made by everlog's demo, which removes this folder when it runs again.\n")


def unpack(golden: Path, output: Path) -> list[Group]:
    """Unpack the golden stores below ``output/stores``, each group into its folder. Returns the groups that have any,
    the plain one last. The results of the original repair tools (``after_*``) are not input."""
    archives = sorted(p for p in golden.rglob("*.tar.gz") if not p.name.startswith("after_"))
    if not archives:
        raise StoreUnavailable(str(golden), found="no *.tar.gz", expected="the golden stores", hint="--golden FOLDER")
    used = []
    for group in GROUPS:
        mine = [a for a in archives if _group_of(a) is group]
        for archive in mine:
            _unpack_one(archive, output / "stores" / group.folder / store_name(archive.relative_to(golden)))
        if mine:
            used.append(_with_key(group, output))
    return used


def store_name(archive: Path) -> Path:
    """A store's name in the tables: its archive's path without parts that all of its kind share."""
    name = archive.with_name(archive.name.removesuffix(".tar.gz"))
    return name.parent if name.name in ("log", "before") else name


def _unpack_one(archive: Path, folder: Path) -> None:
    """Unpack into ``folder``; outer folders that hold everything in an archive are dropped from the path."""
    aside = folder.with_name(folder.name + ".unpacking")
    with tarfile.open(archive) as tar:
        tar.extractall(aside, filter="data")
    inner = aside
    while len(inside := list(inner.iterdir())) == 1 and inside[0].is_dir():
        inner = inside[0]
    inner.rename(folder)
    if inner is not aside:
        shutil.rmtree(aside)


def _group_of(archive: Path) -> Group:
    return next(g for g in GROUPS if not g.names or any(name in archive.as_posix() for name in g.names))


def _with_key(group: Group, output: Path) -> Group:
    if group.key is None:
        return group
    path = (output / f"{group.folder}.key").resolve()
    path.touch(mode=0o600)
    path.write_bytes(group.key)
    return Group(group.folder, group.names, {**group.options, "encryption_key_file": str(path)})


def _golden_folder() -> Path:
    here = Path("tests/golden")
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / "tests" / "golden"


@contextmanager
def _step(console: Console, text: str) -> Iterator[None]:
    begin = time.monotonic()
    with console.status(text):
        yield
    console.print(f"[green]✓[/green] {text} [dim]{time.monotonic() - begin:.1f} s[/dim]", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
