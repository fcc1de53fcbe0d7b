"""Monitoring of toy stores: sizes of their files, and the number of their records as a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from everlog.core.family.overview import StoreOverview
from everlog.core.files.storage import Storage
from everlog.core.store import Store
from everlog.errors import EverlogError
from everlog.testing.toy.store import ToyOptions, ToyStore


def overview(store: Store) -> StoreOverview:
    """Return the size of each stream's one file. Toy stores have no readers."""
    return StoreOverview(segment_sizes={info.name: [info.byte_count] for info in store.streams()})


class ToyCollector(Collector):
    """Collects ``everlog_toy_records`` by store and stream."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        open_storage: Callable[[str], Storage],
        on_error: Callable[[str, Exception], None],
    ) -> None:
        self._paths = paths
        self._open_storage = open_storage
        self._on_error = on_error

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read each store and yield the metric. Stores that can't be read are reported to ``on_error``."""
        records = GaugeMetricFamily("everlog_toy_records", "Number of records of a stream.", labels=["store", "stream"])
        for path in self._paths:
            try:
                store = ToyStore(self._open_storage(path), ToyOptions())
                for name in store.stream_names():
                    records.add_metric([path, name], sum(1 for _ in store.read(name)))
            except EverlogError as error:
                self._on_error(path, error)
        yield records
