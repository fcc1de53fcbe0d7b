"""A node's streams, followed while its recording log changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron.cluster.following import ClusterFollower
from everlog.aeron.cluster.format.recording_log import encode_entry
from everlog.aeron.cluster.tool.recording_log_changes import seed_from_snapshot
from everlog.core.files.storage import LocalStorage
from tests.aeron.cluster.cluster_folder import Node, Recording, new_term


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_seeded_node_has_its_log_anew_however_long_it_was_without_one(tmp_path: Path, looks: int) -> None:
    node = Node.make()
    node.snapshots.append(Recording(3))
    node.snapshots[-1].add(new_term(2, 0, 0))
    path = node.write(tmp_path)
    follower = ClusterFollower(LocalStorage(path), {})
    first = follower.poll()["log"]
    assert (first.was_recreated, first.end) == (False, node.log.end)
    seeded = seed_from_snapshot((path / "recording.log").read_bytes())
    assert seeded is not None
    (path / "recording.log").write_bytes(seeded.data)
    for _ in range(looks):  # it was not started yet
        assert sorted(follower.poll()) == ["snapshot-1", "snapshot-2"]
    term = encode_entry(recording_id=3, leadership_term_id=2, term_base_log_position=0, log_position=-1)
    (path / "recording.log").write_bytes(seeded.data + term)
    log = follower.poll()["log"]
    assert (log.was_recreated, log.end) == (True, 96)
    assert not follower.poll()["log"].was_recreated
    follower.close()
