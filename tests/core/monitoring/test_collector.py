"""The names, labels and types of all families' metrics."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from everlog.core.family.record import Family, load
from everlog.core.files.storage import Storage
from everlog.core.monitoring.collector import Metric, Sample, StoreCollector
from everlog.errors import StoreUnavailable
from everlog.stores import FAMILIES
from everlog.testing.storage.memory import MemoryStorage

COLLECTED = [family for family in FAMILIES.values() if family.collector]
UNITS = ("bytes", "seconds")
NOT_BASE = ("_ns", "_ms", "_milliseconds", "_nanoseconds", "_kib", "_mib", "_percent", "_count", "_age")


@pytest.mark.parametrize("family", COLLECTED, ids=lambda family: family.name)
def test_names_follow_the_scheme(family: Family) -> None:
    kind: type[StoreCollector] = load(str(family.collector))
    assert re.fullmatch(r"everlog_[a-z]+_", kind.prefix)
    assert next(iter(kind.metrics)) == "up"
    for name, metric in kind.metrics.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name
        assert not name.endswith(NOT_BASE), name
        assert not re.search(r"bytes_(?!total)|seconds_(?!total)", name), f"{name}: the unit comes last"
        assert "path" not in metric.labels
        assert metric.text.endswith("."), name


class Fixed(StoreCollector):
    prefix = "everlog_fixed_"
    metrics = {"up": Metric((), "Up."), "seen_total": Metric(("name",), "Seen."), "open": Metric((), "Open.")}  # noqa: RUF012

    def samples(self, path: str, storage: Storage):  # type: ignore[no-untyped-def]
        yield Sample("seen_total", 1, ("a",))
        yield Sample("seen_total", 2, ("a",))
        if path == "torn":
            raise StoreUnavailable(path, found="gone meanwhile")
        yield Sample("open", None)


def test_a_store_that_fails_midway_has_no_other_metric_and_names_are_unique() -> None:
    errors: list[str] = []
    collector = Fixed(
        ["torn", "a", "a"],
        open_storage=lambda path: MemoryStorage({}),
        on_error=lambda path, error: errors.append(path),
    )
    registry = CollectorRegistry()
    registry.register(collector)
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("# HELP")]
    assert lines == [
        "# TYPE everlog_fixed_up gauge",
        'everlog_fixed_up{path="torn"} 0.0',
        'everlog_fixed_up{path="a"} 1.0',
        "# TYPE everlog_fixed_seen_total counter",
        'everlog_fixed_seen_total{name="a",path="a"} 2.0',
        "# TYPE everlog_fixed_open gauge",
    ]
    assert errors == ["torn"]
