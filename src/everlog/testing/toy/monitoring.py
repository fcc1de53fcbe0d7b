"""Monitoring of toy stores: sizes of their files, and the number of their records as a metric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from everlog.core.family.overview import StoreOverview
from everlog.core.files.storage import Storage
from everlog.core.monitoring.collector import Metric, Sample, StoreCollector
from everlog.core.store import Store
from everlog.testing.toy.store import ToyOptions, ToyStore


def overview(store: Store) -> StoreOverview:
    """Return the size of each stream's one file. Toy stores have no readers."""
    return StoreOverview(segment_sizes={info.name: [info.byte_count] for info in store.streams()})


class ToyCollector(StoreCollector):
    """Collects ``everlog_toy_records`` by store and stream."""

    prefix = "everlog_toy_"
    metrics: ClassVar[dict[str, Metric]] = {
        "up": Metric((), "1 if the store could be read."),
        "records": Metric(("stream",), "Number of records of a stream."),
    }

    def samples(self, path: str, storage: Storage) -> Iterator[Sample]:
        """Read each stream of the store and count its records."""
        store = ToyStore(storage, ToyOptions())
        for name in store.stream_names():
            yield Sample("records", sum(1 for _ in store.read(name)), (name,))
