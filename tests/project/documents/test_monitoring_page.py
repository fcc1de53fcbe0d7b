"""``docs/monitoring.md`` lists every metric, every option of a check and every warning, and no others."""

from __future__ import annotations

import re

import pytest

import tests
from everlog.aeron.archive.monitoring.metrics import ArchiveCollector
from everlog.aeron.transport.monitoring.metrics import SYSTEM_METRICS, DriverCollector
from everlog.cli.monitoring.limits import all_check_options, default_text
from everlog.core.monitoring.collector import StoreCollector
from everlog.jlog.checking import CRITICAL
from everlog.jlog.metrics import JournalCollector
from everlog.jlog.monitoring.health import WARNINGS
from everlog.jlog.monitoring.lag import Lag

PAGE = (tests.ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
SYSTEM = {name: counter for counter, name in SYSTEM_METRICS.items()}


def section(title: str) -> str:
    """What stands below a title, up to the next one of any level."""
    return re.split(r"\n#+ ", re.split(rf"\n#+ {title}\n", PAGE)[1])[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a title, as far as they begin with code."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Metrics of drivers", DriverCollector),
        ("Metrics of archives", ArchiveCollector),
        ("Metrics of journals", JournalCollector),
    ],
)
def test_every_metric_is_listed_with_its_labels(title: str, kind: type[StoreCollector]) -> None:
    listed = {row[0]: row[1] for row in rows(title)}
    assert listed == {
        f"`{kind.prefix}{name}`": ", ".join(f"`{label}`" for label in metric.labels)
        for name, metric in kind.metrics.items()
        if not (kind is DriverCollector and name in SYSTEM)
    }


def test_every_system_counter_is_listed_with_its_id() -> None:
    listed = re.findall(r"`(\w+)`\s\((\d+)\)", section("Metrics of drivers"))
    assert {name: int(number) for name, number in listed} == SYSTEM


def test_every_option_of_a_check_is_listed_with_its_default() -> None:
    listed = {row[0]: row[2] for row in rows("Checks") if row[0].startswith("`--")}
    assert listed == {f"`{option.flag}`": f"`{default_text(option)}`" for option in all_check_options()}


def test_the_critical_warnings_are_named() -> None:
    (row,) = [row for row in rows("Checks") if row[1] == "CRITICAL" and "checkpoint-without-segment" in row[0]]
    assert set(re.findall(r"`([^`]+)`", row[0])) == CRITICAL


def test_every_warning_is_listed() -> None:
    assert [row[0] for row in rows("Warnings of journals")] == [f"`{code}`" for code in WARNINGS]


def test_every_key_of_a_lag_is_explained() -> None:
    assert [key for key in Lag().to_dict() if f"`{key}`" not in section("Lag of journals")] == []


def test_the_alerts_name_metrics_and_warnings_that_there_are() -> None:
    (codes,) = re.findall(r'code=~"([^"]+)"', PAGE)
    assert set(codes.split("|")) <= set(WARNINGS)
    kinds = (DriverCollector, ArchiveCollector, JournalCollector)
    known = {kind.prefix + name for kind in kinds for name in kind.metrics}
    alerts = PAGE.split("```yaml\n")[1].split("```")[0]
    named = set(re.findall(r"everlog_[a-z_]+", alerts))
    assert len(named) >= 6
    assert named <= known
