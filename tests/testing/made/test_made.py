"""Stores that are made for tests hold what was put in."""

from __future__ import annotations

from pathlib import Path

import everlog
from everlog.testing.made.archive import MadeRecording, write_archive, write_cluster
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.made.driver import write_driver


def test_an_archive_has_its_recordings(tmp_path: Path) -> None:
    made = MadeRecording(recording_id=3, segments=2, messages=lambda segment: [b"%d" % segment, b"more"])
    with everlog.open_store(write_archive(tmp_path / "archive", [made])) as store:
        assert [record.payload for record in store.read("3")] == [b"0", b"more", b"1", b"more"]


def test_a_clusters_node_has_its_terms_and_snapshots(tmp_path: Path) -> None:
    node = write_cluster(tmp_path / "node", terms=2, snapshots=1)
    with everlog.open_store(node, family="aeron-cluster") as store:
        kinds = [entry["type"] for entry in store.info()["recording_log"]]
    assert kinds == ["TERM", "TERM", "SNAPSHOT", "SNAPSHOT"]


def test_a_channel_has_its_messages(tmp_path: Path) -> None:
    make_store(tmp_path)
    channel = Channel(tmp_path, "orders")
    assert [channel.append(payload) for payload in (b"first", b"second")] == [1, 2]
    channel.roll()
    assert channel.append(b"third") == 3
    with everlog.open_store(tmp_path) as store:
        assert [record.payload for record in store.read("orders")] == [b"first", b"second", b"third"]


def test_a_drivers_folder_has_its_streams(tmp_path: Path) -> None:
    write_driver(tmp_path, publications=2, images=1)
    with everlog.open_store(tmp_path) as store:
        assert len(store.stream_names()) == 3
