"""Combines the reports of a verification's parts."""

from __future__ import annotations

from collections.abc import Sequence

from everlog.core.report import Report, VerifyPart

Checked = Sequence[tuple[VerifyPart, Report]]
"""Parts of a store, each with its report."""


def parts_to_repeat(found: Checked) -> list[VerifyPart]:
    """The groups of parts that reported something, each as one part to check in one piece: damage may lie where two of
    the parts meet."""
    byte_counts: dict[str, int] = {}
    contexts = {repr(context): context for context in _unsound(found)}
    for part, _ in found:
        byte_counts[repr(part.again)] = byte_counts.get(repr(part.again), 0) + part.byte_count
    return [VerifyPart(byte_counts[text], contexts[text]) for text in sorted(contexts)]


def join(path: str, family: str, found: Checked, repeated: Checked = ()) -> Report:
    """Combine the reports of all parts, and of the repeated ones, into the report that ``store.verify()`` returns."""
    joined = Report(path, family)
    unsound = _unsound(found)
    for _, report in (*((part, report) for part, report in found if part.again not in unsound), *repeated):
        _add(joined, report)
    return joined


def _unsound(found: Checked) -> set[object]:
    return {part.again for part, report in found if part.again is not None and report.faults}


def _add(joined: Report, report: Report) -> None:
    joined.faults += report.faults
    joined.stream_count += report.stream_count
    joined.segment_count += report.segment_count
    joined.record_count += report.record_count
    joined.byte_count += report.byte_count
