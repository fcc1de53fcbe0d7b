"""Base of the families' Prometheus collectors. Needs the extra ``metrics``.

Names are ``everlog_FAMILY_WHAT_UNIT`` in base units (``bytes``, ``seconds``, ``timestamp_seconds``); those that end in
``_total`` are counters, all others gauges. The first label of each is ``path``. ``docs/monitoring.md`` has the rules.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from everlog.core.files.storage import LocalStorage, Storage
from everlog.errors import EverlogError

PATH = "path"
COUNTER_SUFFIX = "_total"
UP = "up"

OpenStorage = Callable[[str], Storage]
OnError = Callable[[str, Exception], None]
MetricFamily = GaugeMetricFamily | CounterMetricFamily


class Metric(NamedTuple):
    """A metric's labels after ``path``, and its help text."""

    labels: tuple[str, ...]
    text: str


class Sample(NamedTuple):
    """A value of the metric ``name`` (without the prefix); ``None`` if it is unknown: then it is left out."""

    name: str
    value: float | None
    labels: tuple[str, ...] = ()


def label_text(name: bytes) -> str:
    """Encodes any bytes as a label: printable text stays, a backslash is doubled, other bytes become ``\\xNN``.
    Different names never give the same label."""
    parts = []
    for char in name.decode("utf-8", "surrogateescape"):
        if char == "\\":
            parts.append("\\\\")
        elif char.isprintable():
            parts.append(char)
        else:
            parts += [f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
    return "".join(parts)


class StoreCollector(Collector):
    """Collects the metrics of a family's stores, for a ``CollectorRegistry``. ``open_storage`` opens each path again
    for every scrape. ``on_error`` is called with the path and error of a store that can't be read; it has the metric
    ``up`` with 0 and no other. Concurrent scrapes run one after another.

    A family sets ``prefix`` and ``metrics`` (by name after the prefix, with ``up`` first) and yields the samples."""

    prefix: ClassVar[str]
    metrics: ClassVar[Mapping[str, Metric]]

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        open_storage: OpenStorage = LocalStorage,
        on_error: OnError | None = None,
    ) -> None:
        names = dict.fromkeys(os.fspath(path) for path in paths)
        self._labels = {name: label_text(os.fsencode(name)) for name in names}
        self._open_storage = open_storage
        self._on_error = on_error
        self._lock = threading.Lock()

    @abstractmethod
    def samples(self, path: str, storage: Storage) -> Iterator[Sample]:
        """Read a store; ``up`` is added by the caller."""

    def describe(self) -> Iterator[MetricFamily]:
        """The metrics without samples; reads no store."""
        return iter(self._families().values())

    def collect(self) -> Iterator[MetricFamily]:
        """All metrics with their current values."""
        families = self._families()
        with self._lock:
            for path, label in self._labels.items():
                for (name, labels), value in self._read(path).items():
                    families[name].add_metric([label, *labels], value)
        return iter(families.values())

    def _read(self, path: str) -> dict[tuple[str, tuple[str, ...]], float]:
        """The values of a store by name and labels: each pair at most once, as Prometheus requires."""
        try:
            found = list(self.samples(path, self._open_storage(path)))
        except (EverlogError, OSError) as error:
            if self._on_error is not None:
                self._on_error(path, error)
            return {(UP, ()): 0.0}
        values: dict[tuple[str, tuple[str, ...]], float] = {(UP, ()): 1.0}
        values |= {(name, labels): value for name, value, labels in found if value is not None}
        return values

    def _families(self) -> dict[str, MetricFamily]:
        return {
            name: (CounterMetricFamily if name.endswith(COUNTER_SUFFIX) else GaugeMetricFamily)(
                self.prefix + name, metric.text, labels=[PATH, *metric.labels]
            )
            for name, metric in self.metrics.items()
        }
