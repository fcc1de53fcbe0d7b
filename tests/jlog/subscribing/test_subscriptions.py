"""Adding, removing and listing subscribers, and their checkpoints: the C library's files, bytes and locks."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

import tests
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import CorruptData, NotAStore, SubscriberExists, UnknownSubscriber, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.subscribing.subscriptions import (
    add_subscriber,
    list_subscribers,
    read_checkpoint,
    remove_subscriber,
    write_checkpoint,
)

GOLDEN = tests.GOLDEN / "jlog"


def unpack(case: str, folder: Path) -> Path:
    before = GOLDEN / case / "before.tar.gz"
    with tarfile.open(before if before.exists() else GOLDEN / case / "log.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


@pytest.mark.parametrize("case", ["basic", "lz4", "null_provider", "basic_drained"])
def test_checkpoints_are_read_as_the_c_library_wrote_them(tmp_path, truth, case):
    path = unpack(case, tmp_path)
    told = truth(case)["subscribers"]
    assert {c.subscriber: (c.log, c.marker) for c in list_subscribers(path)} == {
        name: (said["log"], said["marker"]) for name, said in told.items()
    }
    for name, said in told.items():
        assert read_checkpoint(path, name) == Address.of(said["log"], said["marker"])


def test_a_checkpoint_is_written_with_the_bytes_of_the_c_library(tmp_path, truth):
    path = unpack("basic", tmp_path)
    said = truth("basic")["subscribers"]["beta"]
    write_checkpoint(path, "alpha", f"{said['log']:x}:{said['marker']:x}")
    assert (path / "cp.616c706861").read_bytes() == bytes.fromhex(said["hex"])


def test_the_end_is_the_last_message_that_the_c_library_tells(tmp_path, truth):
    # "last" is what jlog_ctx_last_log_id said: 00000002:00000013; segment 2 has no index.
    path = unpack("basic", tmp_path)
    assert truth("basic")["api"]["alpha"]["last"]["stdout"] == "rv 0 00000002:00000013\n"
    assert str(add_subscriber(path, "new", at="end")) == "00000002:00000013"
    assert (path / "cp.6e6577").read_bytes().hex() == "0200000013000000"


def test_the_end_is_found_behind_a_sound_index_and_not_by_a_wrong_one(by_hand, make):
    by_hand.segments([b"a"], [b"one", b"two", b"three", b"four"])
    index = by_hand.path / "00000001.idx"
    for content in (make.index(0, 19), make.index(0, 19, 38, 59), make.index(0, 20, 40), make.index(0, 0), b"\0" * 5):
        index.write_bytes(content)
        assert add_subscriber(by_hand.path, "x", at="end") == Address.of(1, 4)
        remove_subscriber(by_hand.path, "x")


def test_a_torn_message_at_the_end_is_not_counted(by_hand, make):
    by_hand.segments([b"one", b"two"])
    by_hand.append(0, raw=make.message(b"three")[:-2])
    assert add_subscriber(by_hand.path, "x", at="end") == Address.of(0, 2)


def test_the_beginning_is_the_lowest_segment_there_is(by_hand):
    by_hand.segments([b"a"], [b"b"], first=7)
    assert add_subscriber(by_hand.path, "x") == Address.of(7, 0)
    assert by_hand.checkpoint(b"x") == (7, 0)


def test_a_new_journal_without_a_segment_begins_at_0(by_hand):
    assert add_subscriber(by_hand.path, "x") == add_subscriber(by_hand.path, "y", at="end") == Address.of(0, 0)
    assert by_hand.checkpoint(b"x") == by_hand.checkpoint(b"y") == (0, 0)


def test_a_subscriber_may_begin_anywhere_or_where_another_one_is(by_hand):
    by_hand.segments([b"a"], [b"b", b"c"])
    by_hand.put_checkpoint(b"other", 1, 2)
    assert add_subscriber(by_hand.path, "text", at="1:1") == Address.of(1, 1)
    assert add_subscriber(by_hand.path, "number", at=Address.of(0, 1)) == Address.of(0, 1)
    assert add_subscriber(by_hand.path, "copy", copy_of="other") == Address.of(1, 2)
    assert [by_hand.checkpoint(name) for name in (b"text", b"number", b"copy")] == [(1, 1), (0, 1), (1, 2)]
    with pytest.raises(UnknownSubscriber):
        add_subscriber(by_hand.path, "another", copy_of="nobody")
    with pytest.raises(UsageError):
        add_subscriber(by_hand.path, "another", at="somewhere")
    assert len(list_subscribers(by_hand.path)) == 4


def test_one_that_is_there_is_left_as_it_is(by_hand):
    by_hand.put_checkpoint(b"x", 3, 4)
    with pytest.raises(SubscriberExists):
        add_subscriber(by_hand.path, "x")
    assert by_hand.checkpoint(b"x") == (3, 4)


def test_removing_says_whether_there_was_one(by_hand):
    add_subscriber(by_hand.path, "x")
    assert remove_subscriber(by_hand.path, "x") is True
    assert remove_subscriber(by_hand.path, "x") is False
    assert by_hand.names() == []


@pytest.mark.parametrize(
    "name", [b"../../etc/passwd", b"/abs", b"\0", b"\xff\xfe", b"a b\n", "größe", "x" * 126, b".", b"..", b"~"]
)
def test_any_bytes_are_a_name_and_stay_in_the_folder(by_hand, name):
    raw = name.encode() if isinstance(name, str) else name
    before = sorted(os.listdir(by_hand.path.parent))
    add_subscriber(by_hand.path, name)
    assert by_hand.names() == ["cp." + raw.hex()]
    assert sorted(os.listdir(by_hand.path.parent)) == before
    [listed] = list_subscribers(by_hand.path)
    assert listed.subscriber.encode("utf-8", "surrogateescape") == raw
    assert read_checkpoint(by_hand.path, listed.subscriber) == read_checkpoint(by_hand.path, raw) == 0
    assert remove_subscriber(by_hand.path, listed.subscriber)


@pytest.mark.parametrize("name", ["", b"", "x" * 127, b"\0" * 127, "\ud800"])
def test_names_that_can_be_no_file_are_refused(by_hand, name):
    for use in (add_subscriber, remove_subscriber, read_checkpoint):
        with pytest.raises(UsageError):
            use(by_hand.path, name)
    assert by_hand.names() == []


def test_a_checkpoint_that_is_not_there_or_too_short_is_an_error(by_hand):
    with pytest.raises(UnknownSubscriber):
        read_checkpoint(by_hand.path, "x")
    with pytest.raises(UnknownSubscriber):
        write_checkpoint(by_hand.path, "x", 0)
    file = by_hand.put_checkpoint(b"x", 0, 1)
    for content in (b"", b"1234567"):
        file.write_bytes(content)
        with pytest.raises(CorruptData):
            read_checkpoint(by_hand.path, "x")
    write_checkpoint(by_hand.path, "x", "2:3")
    assert by_hand.checkpoint(b"x") == (2, 3)


def test_without_a_metastore_no_subscriber_is_added(tmp_path):
    with pytest.raises(NotAStore):
        add_subscriber(tmp_path, "x")


def test_a_checkpoint_file_is_never_seen_without_its_content(by_hand, monkeypatch):
    """The C library takes an empty one for garbage and may delete what it holds."""
    seen = []
    write_at = os.pwrite

    def looking(fd, data, offset):
        seen.append([n for n in by_hand.names() if n.startswith("cp.")])
        return write_at(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", looking)
    add_subscriber(by_hand.path, "x")
    assert seen == [[]]
    assert by_hand.names() == ["cp.78"]


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("name", ["cp.78", "metastore"])
def test_locks_of_other_processes_are_waited_for(by_hand, name):
    """An ordinary fcntl lock of the whole file, as the C library takes it."""
    by_hand.put_checkpoint(b"x", 0, 0)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(by_hand.path / name), "0.5"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    began = time.monotonic()
    if name == "metastore":
        add_subscriber(by_hand.path, "new")
    else:
        write_checkpoint(by_hand.path, "x", "0:1")
    waited = time.monotonic() - began
    assert holder.wait() == 0
    assert waited > 0.3


def test_a_checkpoint_is_written_under_the_files_lock(by_hand, monkeypatch):
    """So that a C process that locks it waits."""
    file = by_hand.put_checkpoint(b"x", 0, 0)
    refused = []
    write_at = os.pwrite
    probe = file.open("r+b")

    def looking(fd, data, offset):
        try:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            refused.append(True)
        return write_at(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", looking)
    write_checkpoint(by_hand.path, "x", "0:1")
    assert refused == [True]
    fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and it was given back
    probe.close()


class DeletingStorage(LocalWritableStorage):
    """Between the choice of the place and the file that holds it, a C process deletes the first segment."""

    gone = False

    def publish(self, name, data, **options):
        if name.startswith("cp.") and not self.gone:
            self.gone = True
            os.unlink(self.path("00000000"))
        return super().publish(name, data, **options)


def test_a_segment_deleted_while_a_subscriber_is_added_moves_it_on(by_hand):
    by_hand.segments([b"a"], [b"b"], [b"c"])
    assert add_subscriber(DeletingStorage(by_hand.path), "x") == Address.of(1, 0)
    assert by_hand.checkpoint(b"x") == (1, 0)


def test_one_of_many_that_add_the_same_name_wins(by_hand):
    by_hand.segments([b"a"])
    won, lost = [], []

    def add():
        try:
            won.append(add_subscriber(by_hand.path, "x"))
        except SubscriberExists:
            lost.append(1)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert by_hand.names() == ["00000000", "cp.78"]


def test_the_content_is_on_disk_before_the_name_and_in_a_safe_journal_the_name_too(by_hand, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append((fd, by_hand.names())))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append("folder"))
    add_subscriber(by_hand.path, "x")
    [(_, names)] = synced
    assert not any(name.startswith("cp.") for name in names)
    by_hand.safety = 2
    by_hand.store_log(0)
    add_subscriber(by_hand.path, "y")
    assert synced[-1] == "folder"
