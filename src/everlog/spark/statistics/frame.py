"""``stats`` of a DataFrame: of records that a query selected or an export holds, instead of stores.

Rows come in any order, so Spark groups them by stream and sorts them by address; a task then folds them like scanned
ones. A stream is the work of one task. Rows without a time are read once before, to find the extent of their stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everlog.core.store import Level
from everlog.errors import UsageError
from everlog.pipelines.stats.rows import GAP, StreamName, detail_rows, fold_rows
from everlog.pipelines.stats.scan import (
    CLIENT,
    KIND,
    MIN_POSITION_WIDTH,
    Folding,
    new_fold,
    position_width,
    to_records,
)
from everlog.spark.statistics.stats import MINUTE_NS, Stats, check_bucket, kept, stats_of_parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NAMES = ("store", "family", "stream")
NEEDED = (*NAMES, "address", "timestamp_ns", "length")
"""Columns that the DataFrame must have; others are not read."""
_AT = """
    CASE WHEN instr(address, ':') > 0
         THEN shiftleft(CAST(conv(substring_index(address, ':', 1), 16, 10) AS bigint), 32)
              + CAST(conv(substring_index(address, ':', -1), 16, 10) AS bigint)
         ELSE CAST(address AS bigint) END AS at
"""
"""An address as an integer: those of journals are two numbers in hexadecimal."""


def stats_of_frame(frame: DataFrame, *, bucket_ns: int = MINUTE_NS, gaps: bool = False) -> Stats:
    """Like :func:`everlog.spark.stats`, for the rows of a DataFrame with at least the columns :data:`NEEDED`, such as
    the data source's, filtered or not, or those of an export. ``gaps``: report missing addresses in families that count
    their records, which is only meaningful if no row was left out on purpose. What only a store's folder has (segments,
    readers, faults) is not in the result. Raises :class:`UsageError`."""
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise UsageError(
            "stats of a DataFrame",
            found=f"no column {', '.join(missing)}",
            expected=", ".join(NEEDED),
            message=f"stats of a DataFrame need the columns {', '.join(NEEDED)}; {', '.join(missing)} is missing",
        )
    check_bucket(bucket_ns)
    from everlog.pipelines.stats.rows import SCHEMA

    extra = [name for name in (CLIENT, KIND) if name in frame.columns and CLIENT in frame.columns]
    # Spark parses names of an export's folders as numbers if they look like numbers.
    names = [f"CAST({name} AS string) AS {name}" for name in NAMES]
    found = frame.selectExpr(*names, *NEEDED[len(NAMES) :], *extra, _AT)
    timeless = found.where("timestamp_ns IS NULL").groupBy(*NAMES).agg({"at": "max"}).collect()
    widths = {StreamName(row.store, row.family, row.stream): position_width(row["max(at)"]) for row in timeless}
    rows = found.repartition(*NAMES).sortWithinPartitions(*NAMES, "at")
    how = Folding(bucket_ns, Level.RECORD if gaps else Level.FRAME, None, None, fail_on_data_loss=False)
    parts = rows.mapInArrow(lambda batches: _fold(batches, how, widths), SCHEMA)
    with kept(parts):
        return stats_of_parts(frame.sparkSession, parts, bucket_ns=bucket_ns, may_join=False)


def _fold(batches: Iterable[pa.RecordBatch], how: Folding, widths: dict[StreamName, int]) -> Iterator[pa.RecordBatch]:
    """Rows of each stream's fold; the streams' rows come one stream after another."""
    runs = _Runs(how, widths)
    for batch in batches:
        for run in _runs_of(batch):
            yield from runs.add(run)
    yield from runs.end()


class _Runs:
    """Folds the stream whose rows are coming in."""

    def __init__(self, how: Folding, widths: dict[StreamName, int]) -> None:
        self._how = how
        self._widths = widths
        self._name: StreamName | None = None

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        name = StreamName(*(rows.column(column)[0].as_py() for column in NAMES))
        if name != self._name:
            yield from self.end()
            self._name = name
            self._fold = new_fold(name.family, self._how, self._widths.get(name, MIN_POSITION_WIDTH))
            self._texts: dict[int, str] = {}
        records = to_records(rows, ("at",))
        if self._fold.missing is not None:
            self._keep_texts(rows, records.addresses)
        self._fold.add(records)

    def _keep_texts(self, rows: pa.RecordBatch, at: npt.NDArray[np.int64]) -> None:
        """Keep the original addresses of rows that may be next to a gap."""
        sides = np.flatnonzero(np.diff(at) != 1)
        for index in {0, len(at) - 1, *sides.tolist(), *(sides + 1).tolist()}:
            self._texts[int(at[index])] = rows.column("address")[index].as_py()

    def end(self) -> Iterator[pa.RecordBatch]:
        if self._name is None:
            return
        yield from fold_rows(self._name, self._fold)
        yield from detail_rows(
            self._name,
            GAP,
            (
                {
                    "after": self._texts[gap.after],
                    "before": self._texts[gap.before],
                    "missing": gap.missing,
                    "after_ns": gap.after_ns,
                    "before_ns": gap.before_ns,
                }
                for gap in self._fold.gaps
            ),
        )


def _runs_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into runs of rows of one stream."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    codes = [pc.dictionary_encode(batch.column(name)).indices for name in NAMES]
    changed = np.zeros(batch.num_rows, np.bool_)
    for code in codes:
        numbers = np.asarray(pa.array(code).to_numpy(zero_copy_only=False))
        changed[1:] |= numbers[1:] != numbers[:-1]
    starts = [0, *np.flatnonzero(changed).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(starts):
        yield batch.slice(start, end - start)
