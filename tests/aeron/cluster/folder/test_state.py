"""A node's state, in words."""

from __future__ import annotations

from tests.aeron.cluster.test_golden import Unpack, open_node


def test_a_node_that_closed_is_explained_in_words(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 1) as store:
        info = store.info()
    assert info["summary"] == [
        "This is member 1 of cluster 0, with 1 service.",
        "The consensus module: started at 2026-11-21T06:24:39.812Z and closed cleanly.",
        "Service 0: started at 2026-11-21T06:24:40.334Z and closed cleanly.",
        "The latest leadership term here is 1, led by this node.",
        "The log is recording 0 and ends at position 801152.",
        "The latest complete snapshot is at position 791904 of term 1: a start loads it and replays 9248 bytes of log.",
        "The consensus module logged 1 distinct error; the latest at 2026-11-21T06:24:52.304Z: "
        "io.aeron.cluster.client.ClusterEvent: WARN - leader heartbeat timeout",
    ]
    assert info["log"]["leader_member_id"] == 1
    assert info["problems"] == []
