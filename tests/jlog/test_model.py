"""A journal against a plain list: any sequence of appends, flushes, readings, checkpoints, subscribers that come and
go, settings altered, kills and power cuts."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from everlog.errors import StoreUnavailable
from everlog.jlog import Subscriber, Writer, add_subscriber, alter, clean, list_subscribers, remove_subscriber
from everlog.jlog.store import JlogStore
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage

MAGICS = {"none": 0x663A7318, "null": 0x15106A00, "lz4": 0x15106A01}


@dataclass
class Reading:
    """A subscriber, as the model has it: numbers of messages in the list. What is behind ``given`` comes next; after a
    crash what is behind ``checkpoint``."""

    name: str
    given: int
    checkpoint: int
    open: Subscriber | None = field(default=None, repr=False)


class JournalMachine(RuleBasedStateMachine):
    """``messages`` is the journal, in order; ``waiting`` is what is in the buffer. ``first`` messages may have been
    removed."""

    subscribers = Bundle("subscribers")

    def __init__(self) -> None:
        super().__init__()
        self.magic = MAGICS["none"]
        self.storage = CrashingStorage(
            {"metastore": struct.pack("<IIII", 0, 300, 1, self.magic), "pre_commit": bytes(4)}
        )
        self.messages: list[bytes] = []
        self.waiting: list[bytes] = []
        self.readings: dict[str, Reading] = {}
        self.writer: Writer | None = None
        self.durability = "written"
        self.count = 0
        self.gone = 0

    # Writing

    def payloads(self, sizes: list[int]) -> list[bytes]:
        start = self.count
        self.count += len(sizes)
        return [b"%d." % (start + i) + b"." * size for i, size in enumerate(sizes)]

    def opened(self) -> Writer:
        if self.writer is None:
            self.writer = Writer(
                self.storage,
                durability=self.durability,
                buffer_bytes=500 if self.durability == "buffered" else None,
            )
            self.flushed()
        return self.writer

    def flushed(self) -> None:
        self.messages += self.waiting
        self.waiting = []

    def appended(self, payloads: list[bytes]) -> None:
        """A buffer that is full is flushed: then what was in it is in the journal, and the model asks how much."""
        if self.durability != "buffered":
            self.messages += payloads
            return
        self.waiting += payloads
        written = len(self.read()) + self.removed() - len(self.messages)
        self.messages += self.waiting[:written]
        del self.waiting[:written]

    @rule(size=st.integers(0, 600))
    def append(self, size: int) -> None:
        (payload,) = self.payloads([size])
        self.opened().append(payload)
        self.appended([payload])

    @rule(sizes=st.lists(st.integers(0, 200), max_size=8))
    def append_many(self, sizes: list[int]) -> None:
        payloads = self.payloads(sizes)
        self.opened().append_many(payloads)
        self.appended(payloads)

    @rule()
    def flush(self) -> None:
        self.opened().flush()
        self.flushed()

    @rule(durability=st.sampled_from(["written", "synced", "buffered"]))
    def close_and_reopen(self, durability: str) -> None:
        if self.writer is not None:
            self.writer.close()
            self.flushed()
        self.writer, self.durability = None, durability

    @rule(limit=st.integers(1, 2000), safety=st.sampled_from(["unsafe", "almost_safe", "safe"]))
    def alter(self, limit: int, safety: str) -> None:
        alter(self.storage, segment_bytes=limit, safety=safety)

    # Reading

    @rule(target=subscribers, at=st.sampled_from(["beginning", "end"]))
    def add(self, at: str) -> str:
        name = f"s{self.count}-{len(self.readings)}"
        if name in self.readings:
            return name
        add_subscriber(self.storage, name, at=at)
        place = self.removed() if at == "beginning" else len(self.messages)
        self.readings[name] = Reading(name, place, place)
        return name

    @rule(name=consumes(subscribers))
    def remove(self, name: str) -> None:
        reading = self.readings.pop(name, None)
        if reading is not None and reading.open is not None:
            reading.open.close()
        assert remove_subscriber(self.storage, name) == (reading is not None)

    @rule(name=subscribers, count=st.integers(0, 20))
    def read_some(self, name: str, count: int) -> None:
        reading = self.readings.get(name)
        if reading is None:
            return
        subscriber = self.open_subscriber(reading)
        wanted = self.messages[reading.given : reading.given + count]
        found = []
        for message in subscriber if count else ():
            found.append(message.payload)
            if len(found) == count:
                break
        assert found == wanted
        reading.given += len(found)

    @rule(name=subscribers, rows=st.integers(1, 20))
    def read_batch(self, name: str, rows: int) -> None:
        reading = self.readings.get(name)
        if reading is None:
            return
        found = self.open_subscriber(reading).read_payloads(rows)
        assert found == self.messages[reading.given : reading.given + len(found)]
        assert found or reading.given == len(self.messages)
        reading.given += len(found)

    def open_subscriber(self, reading: Reading) -> Subscriber:
        if reading.open is None:
            reading.open = Subscriber(self.storage, reading.name)
            reading.given = reading.checkpoint
        return reading.open

    @rule(name=subscribers)
    def checkpoint(self, name: str) -> None:
        reading = self.readings.get(name)
        if reading is not None and reading.open is not None:
            reading.open.checkpoint()
            reading.checkpoint = reading.given

    @rule(name=subscribers)
    def close_subscriber(self, name: str) -> None:
        reading = self.readings.get(name)
        if reading is not None and reading.open is not None:
            reading.open.close()
            reading.open = None

    @rule()
    def clean(self) -> None:
        clean(self.storage)

    # Crashes

    @rule()
    def kill(self) -> None:
        """All processes die; what was buffered is still in the buffer."""
        self.begin_anew(self.storage.kill())

    @rule(seed=st.integers(0, 1 << 20))
    def cut_the_power_after_a_sync(self, seed: int) -> None:
        """Everything was synced before, so everything is there."""
        self.opened().sync()
        self.flushed()
        for name in self.storage.names():
            with self.storage.open_writable(name) as file:
                file.sync()
        self.storage.sync_folder()
        self.begin_anew(self.storage.crash(seed))

    def begin_anew(self, storage: CrashingStorage) -> None:
        self.storage, self.writer = storage, None
        for reading in self.readings.values():
            reading.open = None

    # What always holds

    def read(self) -> list[bytes]:
        with JlogStore.open(self.storage, {}) as store:
            return [record.payload for record in store.read("journal")]

    def removed(self) -> int:
        """So many messages are not there any more, by the number that each begins with."""
        found = self.read()
        order = [*self.messages, *self.waiting]
        return order.index(found[0]) if found else len(self.messages)

    @invariant()
    def the_journal_is_the_list(self) -> None:
        found = self.read()
        kept = self.messages[len(self.messages) - len(found) :]
        assert found == kept
        gone = len(self.messages) - len(found)
        if gone > self.gone:
            assert gone <= min((reading.checkpoint for reading in self.readings.values()), default=0)
        self.gone = gone

    @invariant()
    def verify_has_no_fault(self) -> None:
        with JlogStore.open(self.storage, {}) as store:
            report = store.verify()
        assert report.ok, [str(fault) for fault in report.faults]

    @invariant()
    def the_subscribers_are_those_of_the_model(self) -> None:
        assert {found.subscriber for found in list_subscribers(self.storage)} == set(self.readings)

    def teardown(self) -> None:
        """In the end a next writer opens, and every subscriber gets what it has not had."""
        if self.writer is not None:
            with suppress(StoreUnavailable):
                self.writer.close()
        Writer(self.storage).close()
        self.flushed()
        for reading in self.readings.values():
            found = [message.payload for message in Subscriber(self.storage, reading.name)]
            assert found == self.messages[reading.checkpoint :]


class Lz4JournalMachine(JournalMachine):
    """With compression."""

    def __init__(self) -> None:
        super().__init__()
        pytest.importorskip("lz4")
        magic = struct.pack("<IIII", 0, 300, 1, MAGICS["lz4"])
        self.storage = CrashingStorage({"metastore": magic, "pre_commit": bytes(4)})


SERIES = Series.from_environment()
CALM = settings(
    max_examples=SERIES.rounds(40), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestJournal = JournalMachine.TestCase
TestJournal.settings = CALM
TestLz4Journal = Lz4JournalMachine.TestCase
TestLz4Journal.settings = settings(CALM, max_examples=SERIES.rounds(15))
