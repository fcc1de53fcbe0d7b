"""A query's filters as bounds of what is read.

Spark still evaluates every filter; here they only exclude what can't satisfy them. So filters that are not understood
are ignored, and bounds may be too wide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from everlog.pipelines.scan.bounds import TEXTS, Bounds, bounded_times

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from everlog.pipelines.scan.options import ScanOptions


def narrow(scan: ScanOptions, filters: Iterable[Filter]) -> ScanOptions:
    """The scan, bounded by filters that must all hold."""
    bounds = scan.bounds
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1:
            continue
        name, value = path[0], getattr(one, "value", None)
        kind = type(one).__name__
        if kind == "IsNotNull" or (kind in _COMPARISONS and value is not None):
            bounds = replace(bounds, needed=bounds.needed | {name})
        bounds = _with_text(bounds, kind, name, value)
        low, high = _limits(kind, value)
        if name == "timestamp":
            scan = _in_time(scan, kind, value)
        elif name == "timestamp_ns":
            scan = _between(scan, low, None if high is None else high + 1)
        elif low is not None or high is not None:
            bounds = replace(bounds, numbers=(*bounds.numbers, (name, low, high)))
    return replace(scan, bounds=bounds)


_COMPARISONS = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "In", "StringStartsWith")


def _with_text(bounds: Bounds, kind: str, name: str, value: Any) -> Bounds:
    values = value if kind == "In" else (value,)
    if kind in ("EqualTo", "In") and all(isinstance(text, str) for text in values):
        texts = frozenset(values)
        if name in TEXTS:
            return replace(bounds, texts=(*bounds.texts, (name, texts)))
        if name == "address":
            both = texts if bounds.addresses is None else texts & bounds.addresses
            return replace(bounds, addresses=both)
    if kind == "StringStartsWith" and name in TEXTS:
        return replace(bounds, starts=(*bounds.starts, (name, value)))
    return bounds


def _limits(kind: str, value: Any) -> tuple[int | None, int | None]:
    """The least and greatest integer that a comparison allows."""
    values = value if kind == "In" else (value,)
    if kind not in _COMPARISONS or not all(type(v) is int for v in values) or not values:
        return None, None
    return {
        "EqualTo": (min(values), max(values)),
        "In": (min(values), max(values)),
        "GreaterThan": (values[0] + 1, None),
        "GreaterThanOrEqual": (values[0], None),
        "LessThan": (None, values[0] - 1),
        "LessThanOrEqual": (None, values[0]),
    }.get(kind, (None, None))


def _in_time(scan: ScanOptions, kind: str, value: Any) -> ScanOptions:
    """Apply a comparison of the microseconds column, whose values are rounded down."""
    values = value if kind == "In" else (value,)
    if kind not in _COMPARISONS or not values or not all(isinstance(v, datetime) and v.tzinfo for v in values):
        return scan  # Spark passes times with a zone; the meaning of others is unknown
    times = [_nanoseconds(v) for v in values]
    low = None if kind.startswith("Less") else min(times)
    high = None if kind.startswith("Greater") else max(times) + 1000
    return _between(scan, low, high)


def _nanoseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000


def _between(scan: ScanOptions, low: int | None, end: int | None) -> ScanOptions:
    start_ns = low if scan.start_ns is None else scan.start_ns if low is None else max(low, scan.start_ns)
    end_ns = end if scan.end_ns is None else scan.end_ns if end is None else min(end, scan.end_ns)
    start_ns, end_ns = bounded_times(start_ns, end_ns)
    return replace(scan, start_ns=start_ns, end_ns=end_ns)
