"""The data source over the toy family, too. In Spark's workers its methods add the family; tests do it with a
fixture, for themselves."""

from everlog.spark.source import EverlogDataSource, EverlogReader, FaultReader, FoldingReader
from everlog.stores import FAMILIES
from everlog.testing.toy_store import ENTRY


class WithToyFamily:
    """Its class is in this module, so that a worker that unpickles it finds the family."""

    def partitions(self):
        FAMILIES.setdefault("toy", ENTRY)
        return super().partitions()

    def read(self, partition):
        FAMILIES.setdefault("toy", ENTRY)
        return super().read(partition)


class ToyReader(WithToyFamily, EverlogReader):
    """Reads records."""


class ToyFaultReader(WithToyFamily, FaultReader):
    """Reads faults."""


class ToyFoldingReader(WithToyFamily, FoldingReader):
    """Reads groups."""


class ToySource(EverlogDataSource):
    """``everlog`` under another name."""

    @classmethod
    def name(cls) -> str:
        return "everlog-toy"

    def schema(self):
        FAMILIES.setdefault("toy", ENTRY)
        return super().schema()

    def reader(self, schema):
        FAMILIES.setdefault("toy", ENTRY)
        reader = super().reader(schema)
        kinds = {FaultReader: ToyFaultReader, FoldingReader: ToyFoldingReader}
        kind = kinds.get(type(reader), ToyReader)
        copy = kind.__new__(kind)
        copy.__dict__.update(reader.__dict__)
        return copy
