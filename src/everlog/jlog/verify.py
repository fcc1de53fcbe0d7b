"""Checking a whole journal."""

from __future__ import annotations

from everlog.core.report import Progress, Report
from everlog.jlog.journal import Journal


def verify_journal(journal: Journal, progress: Progress | None = None) -> Report:
    """Placeholder until the next edit."""
    return Report(journal.storage.root, "jlog")
