"""JLog journals, as everlog knows them."""

from __future__ import annotations

from everlog.core.family.record import Family, StoreOption
from everlog.core.option_kinds import FLAG

MARKER_MASK = 0xFFFFFFFF


def missing_between(before: int, after: int) -> int:
    """An address is ``log << 32 | marker``, and markers begin at 1 in each log. Messages missing at the end
    of a log can't be counted."""
    is_same_log = before >> 32 == after >> 32
    return max((after & MARKER_MASK) - (before & MARKER_MASK if is_same_log else 0) - 1, 0)


JLOG = Family(
    name="jlog",
    title="JLog journal",
    store="everlog.jlog.store.JlogStore",
    usual_file="metastore",
    options=(
        StoreOption(
            field="pre_commit",
            kind=FLAG,
            flag="--pre-commit",
            spark="preCommit",
            help="JLog: read the unflushed pre-commit buffer too.",
        ),
    ),
    colour="#009e73",
    follower="everlog.jlog.following.JournalFollower",
    collector="everlog.jlog.metrics.JournalCollector",
    overview="everlog.jlog.overview.overview",
    appending="everlog.jlog.appending.JournalAppending",
    purging="everlog.jlog.purging.JournalPurging",
    migrating="everlog.jlog.migrating.JournalMigrating",
    address_parts=2,
    missing_between=missing_between,
)
