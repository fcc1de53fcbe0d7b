"""Subscribers for a session (``~``): begun at the newest message, held while open, removed by closing."""

from __future__ import annotations

import logging
import os

import pytest

from everlog.core.writable import LocalWritableStorage
from everlog.errors import SubscriberExists
from everlog.jlog.subscriber import Subscriber

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
    assert "~s ended without closing it" in caplog.text
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
