"""``docs/monitoring.md`` lists every metric and every warning, and no others."""

from __future__ import annotations

import re

import tests
from everlog.jlog.metrics import METRICS, PREFIX
from everlog.jlog.monitoring.health import WARNINGS
from everlog.jlog.monitoring.lag import Lag

PAGE = (tests.ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a title."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_metric_is_listed_with_its_labels() -> None:
    listed = {row[0]: row[1] for row in rows("Metrics")}
    assert listed == {
        f"`{PREFIX}{name}`": "".join(f"`{label}`" for label in labels if label != "journal")
        for name, (labels, _) in METRICS.items()
    }


def test_every_warning_is_listed() -> None:
    assert [row[0] for row in rows("Warnings")] == [f"`{code}`" for code in WARNINGS]


def test_every_key_of_a_lag_is_explained() -> None:
    assert [key for key in Lag().to_dict() if f"`{key}`" not in PAGE.split("## Warnings")[0]] == []


def test_the_alert_names_warnings_that_there_are() -> None:
    (codes,) = re.findall(r'code=~"([^"]+)"', PAGE)
    assert set(codes.split("|")) <= set(WARNINGS)
