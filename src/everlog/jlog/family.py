"""JLog journals, as everlog knows them."""

from __future__ import annotations

from everlog.core.family.record import Family, StoreOption
from everlog.core.monitoring.levels import FREE_SPACE, CheckOption, Levels
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
    checking="everlog.jlog.checking.check",
    check_options=(
        FREE_SPACE,
        CheckOption(
            field="lag_seconds",
            flag="--lag-seconds",
            default=Levels(3600, 86_400),
            help="JLog: age of the oldest message that waits for a subscriber.",
        ),
        CheckOption(
            field="lag_messages",
            flag="--lag-messages",
            default=Levels(),
            help="JLog: messages that wait for a subscriber.",
        ),
        CheckOption(
            field="lag_bytes",
            flag="--lag-bytes",
            default=Levels(),
            help="JLog: bytes of messages that wait for a subscriber.",
        ),
    ),
    overview="everlog.jlog.overview.overview",
    appending="everlog.jlog.appending.JournalAppending",
    purging="everlog.jlog.purging.JournalPurging",
    migrating="everlog.jlog.migrating.JournalMigrating",
    address_parts=2,
    missing_between=missing_between,
)
