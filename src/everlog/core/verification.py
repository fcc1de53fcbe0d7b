"""Putting the reports of a verification's parts together."""

from __future__ import annotations

from collections.abc import Sequence

from everlog.core.report import Report, VerifyPart
from everlog.core.store import Store


def join(store: Store, found: Sequence[tuple[VerifyPart, Report]]) -> Report:
    """The report that ``store.verify()`` gives, out of the reports of all its parts. What was looked at in several
    parts, and is not sound, is checked again in one piece: damage may lie where two of them meet."""
    joined = Report(store.path, store.family)
    unsound = {part.again for part, report in found if part.again is not None and report.faults}
    for part, report in found:
        if part.again not in unsound:
            _add(joined, report)
    for context in sorted(unsound, key=repr):
        _add(joined, store.verify_part(VerifyPart(0, context)))
    return joined


def _add(joined: Report, report: Report) -> None:
    joined.faults += report.faults
    joined.stream_count += report.stream_count
    joined.segment_count += report.segment_count
    joined.record_count += report.record_count
    joined.byte_count += report.byte_count
