"""The data source ``everlog``: ``spark.read.format("everlog").option(...).load(path)``. ``docs/spark.md`` describes its
options and columns.

Spark imports this module in every Python process that plans or reads, so nothing heavy is imported at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from everlog.core.columns import Column
    from everlog.discovery import FoundStore
    from everlog.pipelines.scan.options import ScanOptions
    from everlog.pipelines.scan.planning import ScanTask
    from everlog.spark.writers import EverlogStreamWriter, EverlogWriter


class EverlogDataSource(DataSource):  # type: ignore[misc]
    """A table over one or many stores. What it finds out about them is kept, since Spark pickles it from one planning
    step to the next."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._found: tuple[ScanOptions, list[FoundStore], dict[str, dict[str, Any]], tuple[Column, ...]] | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "everlog"

    def _inspect(self) -> tuple[ScanOptions, list[FoundStore], dict[str, dict[str, Any]], tuple[Column, ...]]:
        if self._found is None:
            from everlog.discovery import find_stores
            from everlog.pipelines.scan.columns import family_options, table_columns
            from everlog.pipelines.scan.options import parse_options

            scan = parse_options(self.options)
            stores = find_stores(scan.paths, scan.family)
            options = family_options(stores, scan)
            # A table of faults has its own columns, even if no store can be opened.
            columns = () if scan.faults else table_columns(stores, scan, options)
            self._found = scan, stores, options, columns
        return self._found

    def schema(self) -> StructType:
        """The columns of all families found, or those that the option ``columns`` names."""
        from everlog.pipelines.scan.columns import default_columns
        from everlog.spark.struct_types import partial_schema, to_struct

        scan, _, _, table = self._inspect()
        if scan.faults:
            from everlog.pipelines.scan.fault_table import COLUMNS

            return to_struct(COLUMNS)
        if scan.aggregation is not None:
            return partial_schema(scan.aggregation, table)
        return to_struct(default_columns(table, scan))

    def reader(self, schema: StructType) -> EverlogReader:
        """A reader of any subset of the columns. Raises :class:`UsageError` for a schema that does not match, or an
        option that selects records only in a live query."""
        from everlog.pipelines.scan.options import check_batch
        from everlog.spark.struct_types import check_groups, check_schema

        scan, stores, options, table = self._inspect()
        check_batch(scan)
        if scan.faults:
            from everlog.pipelines.scan.fault_table import COLUMNS

            check_schema(schema, COLUMNS)
            return FaultReader(schema, scan, stores, options)
        if scan.aggregation is not None:
            check_groups(schema, self.schema())
            return FoldingReader(schema, scan, stores, options)
        check_schema(schema, table)
        kind = FilteringReader if scan.push_filters else EverlogReader
        return kind(schema, scan, stores, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of existing and future records. Raises :class:`UsageError` for a schema that does not match,
        :class:`MissingDependency` with a Spark that can't limit batches."""
        from everlog.spark.live_reader import make_reader
        from everlog.spark.struct_types import check_schema

        scan, _, options, table = self._inspect()
        reader = make_reader(schema, scan, options)
        check_schema(schema, table)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> EverlogWriter:
        """A writer that appends rows at least once. Raises :class:`UsageError` for options and columns that do not
        match, :class:`NotAStore`."""
        from everlog.spark.writers import EverlogWriter

        return EverlogWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> EverlogStreamWriter:  # noqa: N802 - Spark's name
        """A writer that appends each row of a stream once. Raises what :meth:`writer` raises."""
        from everlog.spark.writers import EverlogStreamWriter

        return EverlogStreamWriter(self.options, schema, overwrite)


class EverlogReader(DataSourceReader):  # type: ignore[misc]
    """Reads batches: ``partitions`` runs where the query is planned, ``read`` in the tasks, on a copy."""

    def __init__(
        self, schema: StructType, scan: ScanOptions, stores: list[FoundStore], options: dict[str, dict[str, Any]]
    ) -> None:
        self.schema = schema
        self.scan = scan
        self._stores = stores
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Few large partitions, near the number of cores."""
        from everlog.spark.partitions import to_partitions

        return to_partitions(self._plan())

    def _plan(self) -> list[ScanTask]:
        from everlog.pipelines.scan.planning import plan

        return plan(self._stores, self.scan, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches with exactly the schema that Spark asked for."""
        from everlog.spark.partitions import StorePartition
        from everlog.spark.struct_types import arrow_schema
        from everlog.spark.workers import freeze_gc

        # Spark adds one empty partition if the plan has none.
        if not isinstance(partition, StorePartition):
            return iter(())
        freeze_gc()
        return self._batches(partition.task, arrow_schema(self.schema))

    def _batches(self, task: ScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from everlog.pipelines.scan.reading import read_task

        return read_task(task, schema, self.scan)

    def __getstate__(self) -> dict[str, Any]:
        # A task needs neither the stores nor their options: its partition has them.
        return self.__dict__ | {"_stores": [], "_options": {}}


class FilteringReader(EverlogReader):
    """Uses a query's filters as bounds. It is selected by an option, because Spark refuses a reader with
    ``pushFilters`` if its setting for them is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Apply the filters as bounds; returns all of them, so that Spark evaluates them, too."""
        from everlog.spark.filters import narrow

        self.scan = narrow(self.scan, filters)
        return filters


class FaultReader(EverlogReader):
    """Reads faults instead of records."""

    def _plan(self) -> list[ScanTask]:
        from everlog.pipelines.scan.fault_table import plan_faults

        return plan_faults(self._stores, self.scan, self._options)

    def _batches(self, task: ScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from everlog.pipelines.scan.fault_table import read_faults

        return read_faults(task, schema, self.scan)


class FoldingReader(EverlogReader):
    """Reads groups with partial results instead of records."""

    def _batches(self, task: ScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from everlog.pipelines.scan.folding import fold_task

        return fold_task(task, schema, self.scan)
