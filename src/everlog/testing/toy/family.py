"""Describes the toy family to everlog."""

from __future__ import annotations

from everlog.core.family.record import Family, StoreOption
from everlog.core.option_kinds import NUMBER


def missing_between(before: int, after: int) -> int:
    """Return how many records are missing between two numbers: each record's number is one higher than the last."""
    return max(after - before - 1, 0)


TOY = Family(
    name="toy",
    title="toy store",
    store="everlog.testing.toy.store.ToyStore",
    options=(
        StoreOption(
            field="first_number",
            kind=NUMBER,
            flag="--first-number",
            spark="firstNumber",
            help="Toy: skip records before this number.",
        ),
    ),
    colour="#000000",
    collector="everlog.testing.toy.monitoring.ToyCollector",
    overview="everlog.testing.toy.monitoring.overview",
    missing_between=missing_between,
)
