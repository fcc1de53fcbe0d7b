"""Compares two replicas, or a store and its export, stream by stream.

Records are matched by their ``address``, by their ``order`` in the stream, or by ``payload`` alone, as often as it
occurs; matched records are the same if their length and CRC-32 are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.core.options import check_choice
from everlog.core.report import Progress
from everlog.errors import UsageError
from everlog.pipelines.balance import TASKS_PER_CORE, balance
from everlog.pipelines.choices import COMPARED_BY, ComparedBy
from everlog.pipelines.comparison import (
    COUNTED_BITS,
    SCHEMA,
    Piece,
    Side,
    Wanted,
    address_text,
    rows_of,
    side_of,
)
from everlog.pipelines.scan.option_checks import check_records
from everlog.pipelines.scan.options import FAMILY_OPTIONS, ScanOptions, parse_options
from everlog.spark.jobs.progress import TaskProgress
from everlog.spark.task_errors import unwrap_errors
from everlog.spark.tasks import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTS = """
    count_if(side = 0) AS na, count_if(side = 1) AS nb,
    min(if(side = 0, signature, NULL)) AS a_low, max(if(side = 0, signature, NULL)) AS a_high,
    min(if(side = 1, signature, NULL)) AS b_low, max(if(side = 1, signature, NULL)) AS b_high,
    bit_xor(if(side = 0, signature, 0)) AS a_sum, bit_xor(if(side = 1, signature, 0)) AS b_sum,
    min(if(side = 0, place, NULL)) AS a, min(if(side = 1, place, NULL)) AS b
"""
_STATE = """
    CASE WHEN nb = 0 THEN 'only_a' WHEN na = 0 THEN 'only_b'
         WHEN na <> nb OR a_low <> b_low OR a_high <> b_high OR a_sum <> b_sum THEN 'different' ELSE 'same' END
"""
_GROUPED = {
    "address": f"SELECT stream, place AS key, {_COUNTS} FROM records GROUP BY stream, place",
    "order": f"""
        SELECT stream, key, {_COUNTS} FROM (
            SELECT *, CAST(row_number() OVER (PARTITION BY side, stream ORDER BY place) AS BIGINT) AS key FROM records)
        GROUP BY stream, key
    """,
}
_SUMMED = f"""
    SELECT stream, sum(na) AS records_a, sum(nb) AS records_b,
           count_if(state = 'same') AS same, count_if(state = 'only_a') AS only_a,
           count_if(state = 'only_b') AS only_b, count_if(state = 'different') AS different,
           min(key) FILTER (WHERE state <> 'same') AS first, max(key) FILTER (WHERE state <> 'same') AS last,
           min_by(struct(a, b, a_low, b_low, state), key) FILTER (WHERE state <> 'same') AS difference
    FROM (SELECT *, {_STATE} AS state FROM grouped) GROUP BY stream
"""
_PAYLOADS = """
    SELECT stream, sum(na) AS records_a, sum(nb) AS records_b, sum(least(na, nb)) AS same,
           sum(greatest(na - nb, 0)) AS only_a, sum(greatest(nb - na, 0)) AS only_b, CAST(0 AS BIGINT) AS different,
           CAST(NULL AS BIGINT) AS first, CAST(NULL AS BIGINT) AS last,
           struct(min(if(na > nb, a, NULL)) AS a, min(if(nb > na, b, NULL)) AS b,
                  min_by(signature, a) FILTER (WHERE na > nb) AS a_low,
                  min_by(signature, b) FILTER (WHERE nb > na) AS b_low,
                  if(sum(greatest(na - nb, 0)) > 0, 'only_a', 'only_b') AS state) AS difference
    FROM (SELECT stream, signature, count_if(side = 0) AS na, count_if(side = 1) AS nb,
                 min(if(side = 0, place, NULL)) AS a, min(if(side = 1, place, NULL)) AS b
          FROM records GROUP BY stream, signature)
    GROUP BY stream
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stream's first difference: its state (``only_a``, ``only_b``, ``different``), and each side's address, length
    and checksum of the record; ``None`` on a side without the record."""

    state: str
    address_a: str | None
    address_b: str | None
    length_a: int | None
    length_b: int | None
    crc32_a: str | None
    crc32_b: str | None


@dataclass(slots=True)
class StreamComparison:
    """Counts of records. ``first`` to ``last`` is the range of differences: addresses, or numbers from 1 if records are
    matched by order; ``None`` if they are matched by payload. ``faults_a`` and ``faults_b``: damage that was
    skipped."""

    stream: str
    records_a: int = 0
    records_b: int = 0
    same: int = 0
    only_a: int = 0
    only_b: int = 0
    different: int = 0
    first: str | None = None
    last: str | None = None
    difference: Difference | None = None
    faults_a: int = 0
    faults_b: int = 0

    @property
    def is_same(self) -> bool:
        """Whether nothing differs and nothing was skipped."""
        return not (self.only_a or self.only_b or self.different or self.faults_a or self.faults_b)


@dataclass(slots=True)
class Comparison:
    """Two sides, stream by stream."""

    a: str
    b: str
    by: ComparedBy
    families: tuple[str, str]
    streams: list[StreamComparison] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether both sides hold the same records."""
        return all(stream.is_same for stream in self.streams)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
        return {
            "a": self.a,
            "b": self.b,
            "by": self.by,
            "same": self.is_same,
            "streams": [asdict(stream) | {"is_same": stream.is_same} for stream in self.streams],
        }


def compare(
    spark: SparkSession,
    a: str,
    b: str,
    *,
    by: ComparedBy = "address",
    options: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two paths, each a store or a folder of :func:`everlog.spark.jobs.export`. ``options`` are the data
    source's (``stream``, ``start``, ``end``, a family's own) and apply to both; ``names`` maps streams of ``a`` to
    their names in ``b``. Without it, streams of the same name are compared, and a stream that only one side has counts
    as different.

    Raises :class:`CorruptData` for damage, unless the option ``onFault`` is ``skip``; :class:`UsageError` if the
    addresses of the two can't be compared; :class:`UnknownStream`, and what opening a store raises.
    """
    check_choice("by", by, COMPARED_BY)
    chosen = {name: value for name, value in (options or {}).items() if name not in ("path", "paths")}
    parse_options({"path": b})  # checks this path for a password, too
    scan = parse_options({**chosen, "path": a})
    check_options(scan, names or {})
    back = {theirs: ours for ours, theirs in (names or {}).items()}
    sides = (
        side_of(Wanted(0, a, scan, {name: name for name in names or {}}, (b,))),
        side_of(Wanted(1, b, scan, back, (a,))),
    )
    _check_known(scan, sides)
    if by == "address" and sides[0].is_pair != sides[1].is_pair:
        both = f"{sides[0].family} and {sides[1].family}, whose addresses differ"
        message = f"can't compare {both}, by address; use by order or payload"
        raise UsageError("by", found=both, expected="order or payload", message=message)
    result = Comparison(sides[0].label, sides[1].label, by, (sides[0].family, sides[1].family))
    with TaskProgress(spark, "compare", progress), unwrap_errors():
        summed, faults = _sum(spark, [piece for side in sides for piece in side.pieces], by)
    for stream in dict.fromkeys([*sides[0].streams, *sides[1].streams]):
        passed = [faults.get((number, stream), 0) + sides[number].faults.get(stream, 0) for number in (0, 1)]
        found = StreamComparison(stream, faults_a=passed[0], faults_b=passed[1])
        if stream in summed:
            _fill(found, summed[stream], by, sides)
        result.streams.append(found)
    return result


def check_options(scan: ScanOptions, names: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` for options that prevent comparing records, for streams that are selected in two ways,
    and for two streams of ``a`` with the same name in ``b``."""
    check_records(scan, "compare")
    if scan.has_time_range or scan.level.value != "record":
        raise UsageError(
            "options",
            found="a range of time, or level frame",
            message="compare takes start and end, no range of time, and level record only",
        )
    if scan.sbe_only:
        raise UsageError(
            "option sbeOnly",
            found="compare",
            message="option sbeOnly does not apply to compare, which compares all records as bytes",
        )
    if names and scan.streams:
        raise UsageError(
            "option stream", found="streams", message="option stream and names of streams in B exclude each other"
        )
    if doubled := [name for name, count in Counter(names.values()).items() if count > 1]:
        raise UsageError("streams", found=doubled[0], message=f"several streams are called {doubled[0]} in B")


def _check_known(scan: ScanOptions, sides: Sequence[Side]) -> None:
    """Raise :class:`UsageError` for a family's option if neither side is a store of a family that has it."""
    spark_names = {option: name for name, (option, _) in FAMILY_OPTIONS.items()}
    for option in scan.family_options:
        if option in spark_names and not any(option in side.options for side in sides):
            found = " and ".join(f"{side.label} ({side.family})" for side in sides)
            raise UsageError(
                f"option {spark_names[option]}",
                found=found,
                message=f"option {spark_names[option]} does not apply to {found}",
            )


def _sum(
    spark: SparkSession, pieces: list[Piece], by: ComparedBy
) -> tuple[dict[str, dict[str, Any]], dict[tuple[int, str], int]]:
    """The row of each stream, and counts of faults by side and stream."""
    if not pieces:
        return {}, {}
    frame = _frame(spark, pieces)
    records = frame.where("faults IS NULL")
    if by == "payload":
        summed = spark.sql(_PAYLOADS.replace("FROM records", "FROM {records}"), records=records)
    else:
        grouped = spark.sql(_GROUPED[by].replace("FROM records", "FROM {records}"), records=records)
        summed = spark.sql(_SUMMED.replace("FROM grouped", "FROM {grouped}"), grouped=grouped)
    rows = {row.stream: row.asDict(recursive=True) for row in summed.collect()}
    if not any(piece.skips for piece in pieces):
        return rows, {}
    faults = frame.where("faults IS NOT NULL").groupBy("side", "stream").sum("faults").collect()
    return rows, {(row[0], row[1]): row[2] for row in faults}


def _frame(spark: SparkSession, pieces: list[Piece]) -> DataFrame:
    context = spark.sparkContext
    groups = balance(pieces, lambda piece: piece.byte_count, context.defaultParallelism * TASKS_PER_CORE)
    return frame_of(spark, groups, rows_of, SCHEMA)


def _fill(found: StreamComparison, row: Mapping[str, Any], by: ComparedBy, sides: tuple[Side, Side]) -> None:
    for name in ("records_a", "records_b", "same", "only_a", "only_b", "different"):
        setattr(found, name, row[name])
    for name in ("first", "last"):
        key = row[name]
        setattr(
            found, name, address_text(key, sides[0].is_pair) if by == "address" else None if key is None else str(key)
        )
    first = row["difference"]
    if first is None or not (found.only_a or found.only_b or found.different):
        return
    a, b = first["a_low"], first["b_low"]
    found.difference = Difference(
        first["state"],
        address_text(first["a"], sides[0].is_pair),
        address_text(first["b"], sides[1].is_pair),
        None if a is None or a < 0 else a >> COUNTED_BITS,
        None if b is None or b < 0 else b >> COUNTED_BITS,
        None if a is None or a < 0 else f"{a & 0xFFFFFFFF:08x}",
        None if b is None or b < 0 else f"{b & 0xFFFFFFFF:08x}",
    )
