"""The family of Aeron Archive's folders."""

from __future__ import annotations

from everlog.aeron.family_options import CHECKSUM, TIMESTAMP_FROM
from everlog.core.family.record import Family

ARCHIVE = Family(
    name="aeron-archive",
    title="Aeron archive",
    store="everlog.aeron.archive.store.ArchiveStore",
    usual_file="archive.catalog",
    options=(CHECKSUM, TIMESTAMP_FROM),
    colour="#0072b2",
    follower="everlog.aeron.archive.following.ArchiveFollower",
    overview="everlog.aeron.archive.overview.overview",
    appending="everlog.aeron.archive.appending.RecordingAppending",
    purging="everlog.aeron.archive.purging.RecordingPurging",
    migrating="everlog.aeron.archive.migrating.RecordingMigrating",
)
