"""Subscribers for a session (``~``): begun at the newest message, held while open, removed by closing."""

from __future__ import annotations

import logging
import os

import pytest

from everlog.core.files.writable import LocalWritableFile, LocalWritableStorage
from everlog.errors import SubscriberExists, UnknownSubscriber
from everlog.jlog.subscribing import sessions
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.subscribing.subscriptions import remove_subscriber

FILE = "cp.7e73"  # ~s


@pytest.fixture
def two(by_hand):
    """Two messages in segment 0, one in segment 1."""
    by_hand.segments([b"a", b"b"], [b"c"])
    return by_hand


def payloads(subscriber) -> list[bytes]:
    return [message.payload for message in subscriber]


def test_a_session_begins_at_the_newest_message_each_time_and_leaves_nothing(two):
    for number in range(2):
        with Subscriber(two.path, "~s") as subscriber:
            assert two.checkpoint(b"~s") == (1, 1 + number)
            assert payloads(subscriber) == []
            two.append(1, b"new")
            assert payloads(subscriber) == [b"new"]
            subscriber.checkpoint()
        assert FILE not in two.names()


def test_a_session_may_begin_at_the_beginning(two):
    with Subscriber(two.path, "~s", create="beginning") as subscriber:
        assert payloads(subscriber) == [b"a", b"b", b"c"]


def test_an_exception_ends_the_session_too(two):
    with pytest.raises(RuntimeError), Subscriber(two.path, "~s"):
        raise RuntimeError
    assert FILE not in two.names()


def test_one_that_is_open_is_not_begun_a_second_time(two):
    with Subscriber(two.path, "~s") as first:
        with pytest.raises(SubscriberExists):
            Subscriber(two.path, "~s")
        two.append(1, b"new")
        assert payloads(first) == [b"new"]
    Subscriber(two.path, "~s").close()


def test_one_that_a_c_process_has_open_is_not_taken_from_it(two):
    file = two.put_checkpoint(b"~s", 0, 1)
    with file.open("r+b"), pytest.raises(SubscriberExists):
        Subscriber(two.path, "~s")
    assert two.checkpoint(b"~s") == (0, 1)


def test_one_that_a_crash_left_is_told_and_begins_anew(two, caplog):
    child = os.fork()
    if child == 0:
        Subscriber(two.path, "~s")
        os._exit(0)
    os.waitpid(child, 0)
    assert FILE in two.names()
    with caplog.at_level(logging.WARNING, "everlog.jlog"), Subscriber(two.path, "~s") as subscriber:
        assert two.checkpoint(b"~s") == (1, 1)
        assert payloads(subscriber) == []
    assert "~s was not closed" in caplog.text
    assert FILE not in two.names()


def test_where_the_system_does_not_tell_a_session_that_nobody_of_us_holds_begins_anew(two, monkeypatch):
    monkeypatch.setattr(LocalWritableStorage, "is_open_elsewhere", lambda self, name: None)
    two.put_checkpoint(b"~s", 0, 1)
    with Subscriber(two.path, "~s"):
        assert two.checkpoint(b"~s") == (1, 1)
        with pytest.raises(SubscriberExists):
            Subscriber(two.path, "~s")


def test_a_forked_child_leaves_the_session_to_its_parent(two):
    with Subscriber(two.path, "~s") as subscriber:
        two.append(1, b"new")
        child = os.fork()
        if child == 0:
            good = payloads(subscriber) == [b"new"]
            subscriber.close()
            os._exit(0 if good and FILE in two.names() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert payloads(subscriber) == [b"new"]
        with pytest.raises(SubscriberExists):
            Subscriber(two.path, "~s")
    assert FILE not in two.names()


def test_one_that_begins_as_soon_as_another_one_is_not_held_keeps_its_checkpoint(two, monkeypatch):
    close, begun = LocalWritableFile.close, []

    def closing(file):
        is_held = file is held and file._fd >= 0
        close(file)
        if is_held:
            begun.append(Subscriber(two.path, "~s"))

    first = Subscriber(two.path, "~s")
    held = first._open._checkpointer.file.file
    monkeypatch.setattr(LocalWritableFile, "close", closing)
    first.close()
    assert FILE in two.names()
    two.append(1, b"new")
    assert payloads(begun[0]) == [b"new"]
    begun[0].close()
    assert FILE not in two.names()


def test_one_that_ends_does_so_under_the_lock_under_which_others_begin(two, monkeypatch):
    remove, locks = LocalWritableStorage.remove, []

    def removing(storage, name):
        with storage.open_writable("metastore") as metastore:
            locks.append((name, metastore.lock(wait=False)))
        return remove(storage, name)

    monkeypatch.setattr(LocalWritableStorage, "remove", removing)
    Subscriber(two.path, "~s").close()
    assert locks == [(FILE, False)]


def test_one_that_ends_leaves_what_was_added_under_its_name_meanwhile(two):
    first = Subscriber(two.path, "~s")
    assert remove_subscriber(two.path, "~s")
    second = Subscriber(two.path, "~s")
    first.close()
    assert FILE in two.names()
    second.close()
    assert FILE not in two.names()


def test_one_that_was_left_may_be_removed_while_it_is_taken_over(two, monkeypatch):
    two.put_checkpoint(b"~s", 0, 1)
    is_over = sessions.is_over

    def removing(storage, file):
        assert remove_subscriber(storage, "~s")
        return is_over(storage, file)

    monkeypatch.setattr(sessions, "is_over", removing)
    with Subscriber(two.path, "~s"):
        assert two.checkpoint(b"~s") == (1, 1)


def test_one_that_is_removed_whenever_it_is_added_says_so(two, monkeypatch):
    publish = LocalWritableStorage.publish

    def removing(storage, name, data, **options):
        return publish(storage, name, data, **options) and storage.remove(name)

    monkeypatch.setattr(LocalWritableStorage, "publish", removing)
    with pytest.raises(UnknownSubscriber, match="removed each time"):
        Subscriber(two.path, "~s")
