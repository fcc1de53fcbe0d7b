"""Creates stores, opens existing ones, and keeps others out."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everlog import nats_streaming, open_store
from everlog.errors import Closed, CorruptData, NotAStore, StoreUnavailable, UsageError
from everlog.nats_streaming.store import NatsStreamingStore
from tests.nats_streaming.conftest import Made

HELD = "the lock is held"
HOLDER = f"""
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
if sys.argv[2] == "lock":
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print({HELD!r}, flush=True)
sys.stdin.read()
"""


def holder(file: Path, how: str) -> subprocess.Popen[str]:
    """Another process that has a file open, and locked by the ordinary call that the original uses."""
    command = [sys.executable, "-c", HOLDER, str(file), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == HELD
    return process


def info_of(path: Path) -> dict[str, Any]:
    with open_store(path) as store:
        assert isinstance(store, NatsStreamingStore)
        info = store.info()["server_info"]
        assert isinstance(info, dict)
        return info


def test_a_new_store_has_the_subjects_of_its_cluster(tmp_path: Path, made: Made) -> None:
    with nats_streaming.StoreWriter(tmp_path / "a" / "store", cluster_id="gold-cluster") as store:
        assert store.cluster_id == "gold-cluster"
        store.open_channel("foo").append(b"a")
    names = ("discover", "pub", "sub", "unsub", "close", "subclose", "ack")
    payload = made.text(1, b"gold-cluster") + b"".join(
        made.text(2 + i, b"_STAN.%s.gold-cluster" % name.encode()) for i, name in enumerate(names)
    )
    path = tmp_path / "a" / "store"
    assert (path / "server.dat").read_bytes() == made.version + made.record(payload)
    assert (path / "clients.dat").read_bytes() == made.version
    assert sorted(p.name for p in path.iterdir()) == [".rootdir.lck", "clients.dat", "foo", "server.dat"]


def test_the_default_cluster_is_the_servers_and_an_existing_one_is_kept(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "new", "foo").close()
    assert info_of(tmp_path / "new")["cluster_id"] == "test-cluster"
    nats_streaming.open_channel(tmp_path / "own", "foo", cluster_id="own").close()
    nats_streaming.open_channel(tmp_path / "own", "foo").close()
    assert info_of(tmp_path / "own")["cluster_id"] == "own"


def test_another_cluster_id_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "store", "foo", cluster_id="one").close()
    with pytest.raises(UsageError, match='cluster ID "two" does not match recovered value of "one"'):
        nats_streaming.open_channel(tmp_path / "store", "foo", cluster_id="two")


def test_a_damaged_server_file_is_refused_unchanged(tmp_path: Path, made: Made) -> None:
    damaged = made.server()[:-1] + b"x"
    path = made.store(tmp_path / "store", server=damaged)
    with pytest.raises(CorruptData, match=r"server\.dat"):
        nats_streaming.open_channel(path, "foo")
    assert (path / "server.dat").read_bytes() == damaged


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"")
    with pytest.raises(NotAStore, match="photos"):
        nats_streaming.open_channel(tmp_path, "foo")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


def test_a_store_whose_lock_another_process_holds_is_refused(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "store", "foo").close()
    process = holder(tmp_path / "store" / ".rootdir.lck", "lock")
    try:
        with pytest.raises(StoreUnavailable, match=r"another process holds \.rootdir\.lck"):
            nats_streaming.open_channel(tmp_path / "store", "foo")
    finally:
        process.communicate()
    nats_streaming.open_channel(tmp_path / "store", "foo").close()


def test_a_store_that_a_server_without_lock_has_open_is_refused(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "store", "foo").close()
    process = holder(tmp_path / "store" / "clients.dat", "open")
    try:
        with pytest.raises(StoreUnavailable, match=r"another process has clients\.dat open"):
            nats_streaming.open_channel(tmp_path / "store", "foo")
    finally:
        process.communicate()
    nats_streaming.open_channel(tmp_path / "store", "foo").close()


def test_the_lock_is_one_that_the_server_sees_and_readers_do_not_mind(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo") as writer:
        writer.append(b"a")
        fd = os.open(tmp_path / "store" / ".rootdir.lck", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(StoreUnavailable):
            nats_streaming.open_channel(tmp_path / "store", "bar")
        with open_store(tmp_path / "store") as store:
            assert [record.payload for record in store.read("foo")] == [b"a"]
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


def test_one_store_writer_writes_many_channels_each_once(tmp_path: Path) -> None:
    with nats_streaming.StoreWriter(tmp_path / "store") as store:
        writers = [store.open_channel(f"channel.{k}") for k in range(5)]
        for k, writer in enumerate(writers):
            writer.append(b"%d" % k)
        with pytest.raises(UsageError, match="open for writing already"):
            store.open_channel("channel.1")
        writers[1].close()
        with store.open_channel("channel.1") as again:
            assert again.append(b"more") == 2
    with pytest.raises(Closed):
        writers[0].append(b"")
    with pytest.raises(Closed):
        store.open_channel("channel.1")
    with open_store(tmp_path / "store") as reading:
        assert reading.verify().faults == []
        assert [record.payload for record in reading.read("channel.1")] == [b"1", b"more"]


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "a/b", "a..b", ".a", "a.", "a.*", ">", "a b", "a\0b"])
def test_channel_names_that_the_server_refuses_are_refused(tmp_path: Path, name: str) -> None:
    with nats_streaming.StoreWriter(tmp_path / "store") as store, pytest.raises(UsageError, match="channel name"):
        store.open_channel(name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]
    assert [p for p in (tmp_path / "store").iterdir() if p.is_dir()] == []


def test_a_name_that_differs_by_letter_case_only_is_refused(tmp_path: Path) -> None:
    with nats_streaming.StoreWriter(tmp_path / "store") as store:
        store.open_channel("foo")
        with pytest.raises(UsageError, match="by letter case only"):
            store.open_channel("FOO")


def test_drafts_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "store", "foo").close()
    (tmp_path / "store" / ".everlog-1-abcd").write_bytes(b"\x01")
    nats_streaming.open_channel(tmp_path / "store", "foo").close()
    assert not (tmp_path / "store" / ".everlog-1-abcd").exists()
