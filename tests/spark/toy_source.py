"""The data source over the toy family, too. In Spark's workers its methods add the family; tests do it with a
fixture, for themselves."""

from everlog.spark.source import EverlogDataSource, EverlogReader
from everlog.stores import FAMILIES
from everlog.testing.toy_store import ENTRY


class ToyReader(EverlogReader):
    """Its class is in this module, so that a worker that unpickles it finds the family."""

    def partitions(self):
        FAMILIES.setdefault("toy", ENTRY)
        return super().partitions()

    def read(self, partition):
        FAMILIES.setdefault("toy", ENTRY)
        return super().read(partition)


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
        reader.__class__ = ToyReader
        return reader
