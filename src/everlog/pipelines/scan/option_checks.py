"""Options that mean nothing to a pipeline over records are refused: passed over in silence they would give something
else than was asked for."""

from __future__ import annotations

from everlog.errors import UsageError
from everlog.pipelines.scan.options import ScanOptions, check_batch


def check_records(scan: ScanOptions, what: str) -> None:
    """Raises :class:`UsageError` for options that make a table of something else than records, and for where a live
    query starts. ``what``: the pipeline's name."""
    check_batch(scan)
    for name, is_given in (("faults", scan.faults), ("aggregate", scan.aggregation is not None)):
        if is_given:
            raise UsageError(
                f"option {name}", found=what, message=f"option {name} applies to tables of records, not to {what}"
            )
