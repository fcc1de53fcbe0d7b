"""The family of Aeron Archive's folders."""

from __future__ import annotations

from everlog.aeron.family_options import CHECKSUM, OWNER_OPTIONS, TIMESTAMP_FROM
from everlog.core.family.record import Family
from everlog.core.monitoring.levels import FREE_SPACE, CheckOption, Levels

ARCHIVE = Family(
    name="aeron-archive",
    title="Aeron archive",
    store="everlog.aeron.archive.store.ArchiveStore",
    usual_file="archive.catalog",
    options=(CHECKSUM, TIMESTAMP_FROM),
    colour="#0072b2",
    follower="everlog.aeron.archive.following.ArchiveFollower",
    collector="everlog.aeron.archive.monitoring.metrics.ArchiveCollector",
    checking="everlog.aeron.archive.monitoring.checking.check",
    check_options=(
        FREE_SPACE,
        *OWNER_OPTIONS,
        CheckOption(
            field="invalid_recordings",
            flag="--invalid-recordings",
            default=Levels(0, None),
            help="Aeron Archive: recordings that are marked as invalid.",
        ),
    ),
    overview="everlog.aeron.archive.overview.overview",
    appending="everlog.aeron.archive.appending.RecordingAppending",
    purging="everlog.aeron.archive.purging.RecordingPurging",
    migrating="everlog.aeron.archive.migrating.RecordingMigrating",
)
