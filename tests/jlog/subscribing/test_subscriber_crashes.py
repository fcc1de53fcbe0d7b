"""Subscribers when each operation fails, and when process or power go after each: every message that was acknowledged
is given at least once, in order, and no segment that is needed is removed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError, SubscriberExists, UnknownSubscriber, WriteFailed
from everlog.jlog import Address, Subscriber, Writer, add_subscriber, clean, list_subscribers, remove_subscriber
from everlog.jlog.store import JlogStore
from everlog.jlog.subscribing.subscriptions import read_checkpoint
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults

MESSAGES = [b"message %d" % number + b"." * 150 for number in range(30)]
SEGMENT_BYTES = 700
NEW = [b"new %d" % number for number in range(8)]
POWER_CUTS = 20


def journal(make: Any, *, safety: int = 1) -> CrashingStorage:
    """Thirty messages, four to a segment, on disk."""
    storage = CrashingStorage({"metastore": make.metastore(limit=SEGMENT_BYTES, safety=safety), "pre_commit": bytes(4)})
    with Writer(storage, durability="synced") as writer:
        writer.append_many(MESSAGES)
    return storage


def read(storage: WritableStorage) -> list[bytes]:
    with JlogStore.open(storage, {}) as store:
        assert [fault for fault in store.verify().faults if fault.severity.value == "fault"] == []
        return [record.payload for record in store.read("journal")]


def keep_trying(work: Callable[[], object], errors: list[EverlogError]) -> None:
    for _ in range(20):
        try:
            work()
            return
        except EverlogError as error:
            errors.append(error)
    raise AssertionError(f"it fails for ever: {errors[-1]}")


def drain(storage: WritableStorage, name: str, given: list[bytes], errors: list[EverlogError]) -> None:
    """Read all there is with a checkpoint after each third message; what fails is tried again, with the same
    subscriber, then with a new one."""

    def work() -> None:
        with Subscriber(storage, name, create="beginning", checkpoint_every=3) as subscriber:
            for _ in range(3):
                try:
                    given.extend(message.payload for message in subscriber)
                    return
                except EverlogError as error:
                    errors.append(error)

    keep_trying(work, errors)


def assert_all_in_order(given: list[bytes], context: str) -> None:
    """At least once: what is given again is so from some earlier message on."""
    assert list(dict.fromkeys(given)) == MESSAGES, context
    numbers = [MESSAGES.index(payload) for payload in given]
    jumps = [(a, b) for a, b in pairwise(numbers) if b > a + 1]
    assert jumps == [], context


@pytest.mark.parametrize("safety", [1, 2], ids=["almost_safe", "safe"])
@pytest.mark.parametrize("count", [1, 5], ids=["once", "for a while"])
def test_whatever_fails_every_message_is_given_and_what_is_done_is_removed(safety: int, count: int, make: Any) -> None:
    fail_at = 0
    while True:
        inner = journal(make, safety=safety)
        error = (errno.EIO, errno.ENOSPC)[fail_at % 2]
        storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at, count=count, error=error))
        given: list[bytes] = []
        errors: list[EverlogError] = []
        drain(storage, "a", given, errors)
        context = f"operation {fail_at} failed ({storage.failed}): {errors}"
        assert_all_in_order(given, context)
        for raised in errors:
            # The subscriber was added, and only the folder's sync failed.
            assert isinstance(raised, WriteFailed | SubscriberExists), context
            assert not isinstance(raised, WriteFailed) or raised.found == os.strerror(error).lower(), context
        clean(inner)
        assert len([name for name in inner.names() if len(name) == 8 and name != "metastore"]) == 1, context
        with Writer(inner) as writer:
            writer.append_many(NEW)
        drain(inner, "a", given, errors)
        assert given[-len(NEW) :] == NEW, context
        if not storage.failed:
            break
        fail_at += 1
    assert fail_at > 30


def test_whatever_fails_a_subscriber_is_added_and_removed_whole(make: Any) -> None:
    for safety in (1, 2):
        fail_at = 0
        while True:
            inner = journal(make, safety=safety)
            storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at))
            for call, arguments in (
                (add_subscriber, {"name": "a"}),
                (add_subscriber, {"name": "b", "at": "end"}),
                (add_subscriber, {"name": "c", "copy_of": "b"}),
                (remove_subscriber, {"name": "b"}),
            ):
                with suppress(WriteFailed, UnknownSubscriber):
                    call(storage, **arguments)
            assert all(found.byte_count == 8 for found in list_subscribers(inner)), storage.failed
            assert not [name for name in inner.names() if name.startswith(".everlog")]
            if not storage.failed:
                break
            fail_at += 1
        assert fail_at >= 8
        assert [found.subscriber for found in list_subscribers(inner)] == ["a", "c"]


def moments(
    storage: CrashingStorage, work: Callable[[WritableStorage], object]
) -> Iterator[tuple[str, CrashingStorage]]:
    found: list[tuple[str, CrashingStorage]] = []
    storage.after_each = lambda what: found.append((f"{len(found)}: {what}", storage.kill()))
    work(storage)
    storage.after_each = None
    return iter(found)


def crashed(moment: str, killed: CrashingStorage, **how: bool) -> Iterator[tuple[str, CrashingStorage]]:
    number = int(moment.split(":")[0])
    for seed in range(number * POWER_CUTS, (number + 1) * POWER_CUTS):
        yield f"power cut after {moment}, seed {seed}", killed.crash(seed, **how)


def test_a_subscriber_that_was_killed_goes_on_without_a_gap(make: Any, series: Series) -> None:
    """What one was given before it was killed and what the next is given: all, in order."""
    storage = journal(make)
    given: list[bytes] = []
    states: list[tuple[str, CrashingStorage, list[bytes]]] = []
    storage.after_each = lambda what: states.append((f"{len(states)}: {what}", storage.kill(), list(given)))
    with Subscriber(storage, "a", create="beginning", checkpoint_every=3) as subscriber:
        given.extend(message.payload for message in subscriber)
    storage.after_each = None
    assert len(states) > 20
    for moment, killed, before in series.points(states):
        after: list[bytes] = []
        drain(killed, "a", after, [])
        assert_all_in_order(before + after, f"killed after {moment}")
        assert len(before) - (len(MESSAGES) - len(after)) <= 3, f"killed after {moment}: more than three given again"


@pytest.mark.parametrize("ordered_names", [True, False], ids=["journaling", "strict"])
@pytest.mark.parametrize("safety", [1, 2], ids=["almost_safe", "safe"])
def test_after_a_power_cut_what_is_not_done_is_there_and_new_messages_arrive(
    safety: int, ordered_names: bool, make: Any, series: Series
) -> None:
    """Also where the removal of segments is on disk and the checkpoint is not, and the other way round."""

    def work(storage: WritableStorage) -> None:
        with Subscriber(storage, "a", checkpoint_every=3) as subscriber, Writer(storage) as writer:
            for count, _ in enumerate(subscriber, 1):
                if count % 5 == 0:
                    writer.append(b"in between %d" % count + b"." * 150)

    storage = journal(make, safety=safety)
    add_subscriber(storage, "a")
    storage.sync_folder()
    for moment, killed in series.points(list(moments(storage, work))):
        done = read_checkpoint(killed, "a")
        for context, after in crashed(moment, killed, ordered_names=ordered_names):
            with Writer(after) as writer:
                writer.append_many(NEW)
            given: list[bytes] = []
            drain(after, "a", given, [])
            assert given[-len(NEW) :] == NEW, context
            # What was done may come again; with names that get lost one by one, with gaps.
            old = [payload for payload in given if payload in MESSAGES]
            assert old == sorted(old, key=MESSAGES.index), context
            waiting = MESSAGES[min(done.log * 4 + done.marker, len(MESSAGES)) :]
            assert old[len(old) - len(waiting) :] == waiting, context


def test_adding_and_removing_leaves_a_subscriber_whole_or_none(make: Any, series: Series) -> None:
    def work(storage: WritableStorage) -> None:
        add_subscriber(storage, "a")
        add_subscriber(storage, "b", at="end")
        remove_subscriber(storage, "a")

    for moment, killed in series.points(list(moments(journal(make), work))):
        for context, after in [(moment, killed), *crashed(moment, killed)]:
            found = list_subscribers(after)
            assert {name.subscriber for name in found} <= {"a", "b"}, context
            assert [name.byte_count for name in found] == [8] * len(found), context
            assert read(after) == MESSAGES, context
            clean(after)


def test_in_a_safe_journal_a_checkpoint_that_was_written_survives_a_power_cut(make: Any) -> None:
    storage = journal(make, safety=2)
    with Subscriber(storage, "a", create="beginning") as subscriber:
        for message in subscriber:
            if message.payload in (MESSAGES[4], MESSAGES[9], MESSAGES[13]):
                subscriber.checkpoint()
                states = [storage.crash(seed) for seed in range(20)]
                assert {read_checkpoint(state, "a") for state in states} == {message.address}


def test_a_writer_sets_a_checkpoint_past_the_end_back_before_its_first_append(make: Any) -> None:
    end = Address.of(7, 2)
    for past in (Address.of(7, 3), Address.of(8, 0), Address.of(9, 5)):
        storage = journal(make)
        for name, place in (("past", past), ("at the end", end), ("before", Address.of(3, 1))):
            add_subscriber(storage, name, at=place)
        with Writer(storage) as writer:
            assert read_checkpoint(storage, "past") == past  # opening writes nothing
            writer.append(NEW[0])
        assert [read_checkpoint(storage, name) for name in ("past", "at the end", "before")] == [
            end,
            end,
            (3 << 32) + 1,
        ]
        with Subscriber(storage, "past") as subscriber:
            assert [message.payload for message in subscriber] == [NEW[0]]


def test_a_checkpoint_of_a_subscriber_at_work_is_not_set_back(make: Any) -> None:
    """Another writer has gone on meanwhile, and the subscriber with it."""
    storage = journal(make)
    add_subscriber(storage, "a", at="end")
    with Writer(storage) as late, Writer(storage) as writer, Subscriber(storage, "a") as subscriber:
        late.append(NEW[0])
        writer.append_many([b"." * 300] * 9)
        assert len(list(subscriber)) == 10
        subscriber.checkpoint()
        place = read_checkpoint(storage, "a")
        late.append(NEW[1])
        with Writer(storage) as third:
            third.append(NEW[2])
        assert read_checkpoint(storage, "a") == place


def test_a_segment_that_a_killed_flush_was_writing_is_kept_until_the_next_writer_has_looked(make: Any) -> None:
    storage = CrashingStorage({"metastore": make.metastore(limit=500), "pre_commit": bytes(4)})
    writer = Writer(storage, durability="buffered", buffer_bytes=1000)
    for payload in MESSAGES[:5]:
        writer.append(payload)
    states: list[CrashingStorage] = []
    storage.after_each = lambda what: states.append(storage.kill())
    writer.flush()
    for number, killed in enumerate(states):
        given: list[bytes] = []
        add_subscriber(killed, "a")
        with Subscriber(killed, "a", checkpoint_every=1) as subscriber:
            given.extend(message.payload for message in subscriber)
        clean(killed)
        with Writer(killed) as other:
            other.append(b"next")
        with Subscriber(killed, "a") as subscriber:
            given.extend(message.payload for message in subscriber)
        assert given == [*MESSAGES[:5], b"next"], f"killed after operation {number}"
