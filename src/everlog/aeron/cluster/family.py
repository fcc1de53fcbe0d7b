"""Aeron Cluster's folders, as everlog knows them."""

from __future__ import annotations

from everlog.aeron.family_options import CHECKSUM
from everlog.core.family.record import Family, StoreOption
from everlog.core.option_kinds import TEXT

CLUSTER = Family(
    name="aeron-cluster",
    title="Aeron cluster node's folder",
    store="everlog.aeron.cluster.store.ClusterStore",
    usual_file="recording.log",
    options=(
        CHECKSUM,
        StoreOption(
            field="archive_dir",
            kind=TEXT,
            flag="--archive-dir",
            spark="archiveDir",
            help="Aeron Cluster: the node's archive, if it is not beside PATH.",
        ),
    ),
    colour="#56b4e9",
    follower="everlog.aeron.cluster.following.ClusterFollower",
    compare_command="everlog cluster {a} compare {b}",
)
