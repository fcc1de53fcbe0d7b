"""The toy family's record."""

from __future__ import annotations

from everlog.core.family.record import Family, StoreOption
from everlog.core.option_kinds import NUMBER


def missing_between(before: int, after: int) -> int:
    """Numbers count the records of a stream."""
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
            help="Toy: leave out records before this one.",
        ),
    ),
    colour="#000000",
    collector="everlog.testing.toy.monitoring.ToyCollector",
    overview="everlog.testing.toy.monitoring.overview",
    missing_between=missing_between,
)
