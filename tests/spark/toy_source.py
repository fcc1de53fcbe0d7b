"""The data source over the toy family too. Importing this, in the driver or in a worker of Spark, adds the family."""

from pyspark.sql.datasource import DataSource

from everlog.spark.source import EverlogDataSource, EverlogReader
from everlog.stores import FAMILIES
from everlog.testing.toy_store import ENTRY

FAMILIES.setdefault("toy", ENTRY)


class ToyReader(EverlogReader):
    """Its class is in this module, so that a worker that unpickles it imports the module."""


class ToySource(EverlogDataSource):
    """``everlog`` under another name."""

    @classmethod
    def name(cls) -> str:
        return "everlog-toy"

    def reader(self, schema):
        reader = super().reader(schema)
        reader.__class__ = ToyReader
        return reader


assert issubclass(ToySource, DataSource)
