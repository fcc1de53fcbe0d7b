"""Refuses options that do not apply to a pipeline over records; ignoring them silently would give a wrong result."""

from __future__ import annotations

from everlog.errors import UsageError
from everlog.pipelines.scan.options import ScanOptions, check_batch


def check_records(scan: ScanOptions, what: str) -> None:
    """Raise :class:`UsageError` for options that make a table of something other than records, and for the start of a
    live query. ``what``: the pipeline's name."""
    check_batch(scan)
    for name, is_given in (("faults", scan.faults), ("aggregate", scan.aggregation is not None)):
        if is_given:
            raise UsageError(
                f"option {name}", found=what, message=f"option {name} applies to tables of records, not to {what}"
            )
