"""Which segments are removed, in what order, and what holds them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import NotAStore, StoreUnavailable, WriteFailed
from everlog.jlog.subscribing.removal import clean, remove_consumed
from everlog.jlog.subscribing.subscriber import Subscriber


@pytest.fixture
def five(by_hand, make):
    """Segments 0 to 4, of which 4 is written now; 0 to 2 have an index."""
    by_hand.segments([b"a"], [b"b"], [b"c"], [b"d"], [b"e"])
    for log in range(3):
        (by_hand.path / f"{log:08x}.idx").write_bytes(make.index(0, 0))
    return by_hand


def data_files(journal) -> list[str]:
    return [name for name in journal.names() if not name.startswith("cp.")]


def test_what_is_below_every_checkpoint_goes_with_its_index(five):
    five.put_checkpoint(b"slow", 2, 1)
    five.put_checkpoint(b"fast", 4, 1)
    assert remove_consumed(five.path) == [0, 1]
    assert data_files(five) == ["00000002", "00000002.idx", "00000003", "00000004"]
    assert remove_consumed(five.path) == []


def test_without_a_subscriber_nothing_goes(five):
    """The C library's clean deletes everything then."""
    before = data_files(five)
    assert remove_consumed(five.path) == clean(five.path) == []
    assert data_files(five) == before


def test_the_segment_that_is_written_stays_whatever_checkpoints_say(five):
    five.put_checkpoint(b"done", 5, 0)
    assert remove_consumed(five.path) == [0, 1, 2, 3]
    assert data_files(five) == ["00000004"]


def test_no_segment_above_the_one_that_is_written_goes(five):
    five.put_checkpoint(b"done", 3, 0)
    five.store_log(2)
    assert remove_consumed(five.path) == [0, 1]


def test_a_checkpoint_in_a_segment_that_never_was_holds_everything(five):
    """Where its subscriber really is, nobody knows; the C library deletes what it may need."""
    five.put_checkpoint(b"far", 99, 0)
    assert remove_consumed(five.path) == clean(five.path) == []


def test_the_caller_may_keep_more(five):
    five.put_checkpoint(b"x", 4, 0)
    assert remove_consumed(five.path, below=1) == [0]
    assert remove_consumed(five.path, below=99) == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"1234567"])
def test_a_checkpoint_that_says_nothing_holds_everything(five, content):
    """An empty one is a subscriber that a C process adds this moment."""
    five.put_checkpoint(b"x", 4, 0)
    five.put_checkpoint(b"new", 0, 0).write_bytes(content)
    assert remove_consumed(five.path) == []


@pytest.mark.parametrize("name", ["cp.616", "cp.zz", "cp.AB", "cp."])
def test_a_checkpoint_whose_name_is_no_subscribers_holds_as_in_the_c_library(five, name):
    five.put_checkpoint(b"x", 4, 0)
    (five.path / name).write_bytes(bytes(8))
    assert remove_consumed(five.path) == []
    (five.path / name).write_bytes(b"\3\0\0\0\0\0\0\0")
    assert remove_consumed(five.path) == [0, 1, 2]


def test_a_checkpoint_that_is_a_folder_or_a_dangling_link_holds_everything(five):
    five.put_checkpoint(b"x", 4, 0)
    (five.path / "cp.61").mkdir()
    assert remove_consumed(five.path) == []


def test_a_checkpoint_that_may_not_be_read_holds_everything(five):
    class Guarded(LocalWritableStorage):
        def open(self, name):
            if name == "cp.736563726574":
                raise StoreUnavailable(name, found="permission denied")
            return super().open(name)

    five.put_checkpoint(b"x", 4, 0)
    five.put_checkpoint(b"secret", 4, 0)
    assert remove_consumed(Guarded(five.path)) == []
    assert remove_consumed(five.path) == [0, 1, 2, 3]


class WatchedStorage(LocalWritableStorage):
    """Notes what is removed; ``deny`` is a name that can't be, ``steal`` one that a C process deletes first."""

    deny = steal = vanish = ""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.removed: list[str] = []

    def names(self, folder: str = "") -> list[str]:
        names = super().names(folder)
        if self.vanish:
            os.unlink(self.path(self.vanish))
        return names

    def remove(self, name: str) -> bool:
        if name == self.deny:
            raise WriteFailed(name, found="no permission")
        if name == self.steal:
            os.unlink(self.path(name))
        self.removed.append(name)
        return super().remove(name)


def test_an_index_goes_before_its_data_and_lower_segments_first(five):
    five.put_checkpoint(b"x", 2, 0)
    storage = WatchedStorage(five.path)
    remove_consumed(storage)
    assert storage.removed == ["00000000.idx", "00000000", "00000001.idx", "00000001"]


def test_stopped_in_the_middle_a_segment_without_index_is_left(five):
    five.put_checkpoint(b"x", 2, 0)
    storage = WatchedStorage(five.path)
    storage.deny = "00000001"
    with pytest.raises(WriteFailed):
        remove_consumed(storage)
    assert data_files(five)[:2] == ["00000001", "00000002"]
    storage.deny = ""
    assert remove_consumed(storage) == [1]


def test_what_a_c_process_deletes_meanwhile_is_no_error(five):
    five.put_checkpoint(b"x", 4, 0)
    storage = WatchedStorage(five.path)
    storage.steal = "00000001"
    assert remove_consumed(storage) == [0, 2, 3]


def test_a_subscriber_removed_meanwhile_holds_nothing_and_is_none(five):
    file = five.put_checkpoint(b"x", 4, 0)
    storage = WatchedStorage(five.path)
    storage.vanish = file.name
    assert remove_consumed(storage) == []
    five.put_checkpoint(b"x", 0, 0)
    five.put_checkpoint(b"y", 2, 0)
    assert remove_consumed(storage) == [0, 1]


def test_a_folder_without_a_metastore_is_refused(tmp_path):
    (tmp_path / "00000000").touch()
    for remove in (remove_consumed, clean):
        with pytest.raises(NotAStore):
            remove(tmp_path)


# Sessions


def test_a_session_that_is_open_holds_and_one_that_is_over_does_not(five, caplog):
    five.put_checkpoint(b"x", 4, 0)
    session = five.put_checkpoint(b"~tail", 1, 0)
    with session.open("rb"):  # a C process keeps it open
        assert remove_consumed(five.path) == [0]
    with caplog.at_level(logging.WARNING, "everlog.jlog"):
        assert remove_consumed(five.path) == [1, 2, 3]
    assert "~tail" in caplog.text
    assert "cp.7e7461696c" in five.names()


def test_a_session_of_another_process_holds(five):
    five.put_checkpoint(b"x", 4, 0)
    code = (
        "import sys; from everlog.jlog.subscribing.subscriber import Subscriber; "
        "s = Subscriber(sys.argv[1], '~s', create='beginning'); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(five.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    assert remove_consumed(five.path) == clean(five.path) == []
    holder.kill()
    holder.communicate()
    assert "cp.7e73" in five.names()
    assert clean(five.path) == [0, 1, 2, 3]
    assert "cp.7e73" not in five.names()


def test_where_the_system_does_not_tell_a_session_holds_and_stays(five, monkeypatch):
    monkeypatch.setattr(LocalWritableStorage, "is_open_elsewhere", lambda self, name: None)
    five.put_checkpoint(b"x", 4, 0)
    five.put_checkpoint(b"~tail", 1, 0)
    assert clean(five.path) == [0]
    assert "cp.7e7461696c" in five.names()


def test_with_sessions_that_are_over_alone_nothing_goes(five):
    five.put_checkpoint(b"~tail", 4, 0)
    assert remove_consumed(five.path) == []


# Clean


def test_clean_takes_away_what_crashes_leave(five, make):
    five.put_checkpoint(b"x", 2, 1)
    five.put_checkpoint(b"~over", 0, 0)
    (five.path / "00000003.idx").write_bytes(make.index(0))
    (five.path / "00000003").unlink()
    (five.path / "00000007.idx").write_bytes(b"")  # of a segment that may come yet
    draft, fresh = five.path / ".everlog-1-aa", five.path / ".everlog-2-bb"
    draft.touch()
    fresh.touch()
    os.utime(draft, (time.time() - 700, time.time() - 700))
    (five.path / "notes.txt").touch()
    assert clean(five.path) == [0, 1]
    assert five.names() == [
        ".everlog-2-bb", "00000002", "00000002.idx", "00000004", "00000007.idx", "cp.78", "notes.txt",
    ]  # fmt: skip


def test_a_draft_that_is_being_written_stays(five):
    draft = five.path / ".everlog-1-aa"
    with draft.open("wb"):
        os.utime(draft, (1, 1))
        clean(five.path)
        assert draft.exists()
    clean(five.path)
    assert not draft.exists()


# While a subscriber reads


def test_crossing_removes_what_all_are_done_with(five):
    five.put_checkpoint(b"x", 0, 0)
    five.put_checkpoint(b"other", 1, 1)
    with Subscriber(five.path, "x") as subscriber:
        for message in subscriber:
            subscriber.checkpoint()
            if message.payload == b"c":
                break
        assert data_files(five) == ["00000001", "00000001.idx", "00000002", "00000002.idx", "00000003", "00000004"]
        assert five.checkpoint(b"x") == (3, 0)  # all of segment 2 is done


def test_a_finished_segment_goes_when_its_last_message_is_done(by_hand):
    """The checkpoint becomes (next segment, 0), as the C library has it."""
    by_hand.segments([b"a"])
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        assert [message.payload for message in subscriber] == [b"a"]
        subscriber.checkpoint()
        assert by_hand.checkpoint(b"x") == (0, 1)
        by_hand.roll(1)
        assert list(subscriber) == []
        assert by_hand.checkpoint(b"x") == (1, 0)
    assert data_files(by_hand) == ["00000001"]


def test_a_finished_segment_that_is_read_and_not_done_stays(by_hand):
    by_hand.segments([b"a", b"b"], [b"c"])
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        first, _, _ = subscriber
        subscriber.checkpoint(first)
    assert by_hand.checkpoint(b"x") == (0, 1)
    assert data_files(by_hand) == ["00000000", "00000001"]


def test_with_very_many_files_the_list_is_not_looked_through_at_every_crossing(by_hand):
    count = 600
    by_hand.segments(*[[b"m"]] * count)
    by_hand.put_checkpoint(b"x", 0, 0)
    holding = by_hand.put_checkpoint(b"hold", 0, 0)
    storage = WatchedStorage(by_hand.path)
    lists = []
    storage.names = lambda folder="": lists.append(1) or LocalWritableStorage.names(storage, folder)
    with Subscriber(storage, "x") as subscriber:
        for _ in subscriber:
            subscriber.checkpoint()
    assert by_hand.checkpoint(b"x") == (count - 1, 1)
    assert 10 < len(lists) < count / 2
    assert len(data_files(by_hand)) == count
    holding.unlink()
    assert len(remove_consumed(by_hand.path)) == count - 1


def test_when_there_is_no_more_all_that_is_done_is_removed(by_hand):
    count = 600
    by_hand.segments(*[[b"m"]] * count)
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        for message in subscriber:
            if message.log in (0, 1, count - 2):  # too few crossings to look every time
                subscriber.checkpoint()
        assert data_files(by_hand) == [f"{count - 1:08x}"]


def test_reading_goes_on_where_nothing_may_be_removed(five, caplog):
    five.put_checkpoint(b"x", 0, 0)
    storage = WatchedStorage(five.path)
    storage.deny = "00000000.idx"
    with Subscriber(storage, "x") as subscriber:
        got = []
        for message in subscriber:
            got.append(message.payload)
            subscriber.checkpoint()
    assert got == [b"a", b"b", b"c", b"d", b"e"]
    assert "could not be removed" in caplog.text
