"""Malicious clients: a driver's conductor continues and serves honest clients, whatever they write into shared memory.

``EVERLOG_FUZZ_SECONDS`` (default 1) is the duration of each kind if series run in full, ``EVERLOG_FUZZ_SEED`` the
first seed; a failure names its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import fields

import pytest

from everlog.aeron.transport.protocol import commands as c
from everlog.aeron.transport.protocol.command_messages import DriverMessage
from everlog.errors import CorruptData, DataLost, EverlogError
from everlog.kernel.memory import Memory
from everlog.testing.series import Series
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, all_of

SECONDS = float(os.environ.get("EVERLOG_FUZZ_SECONDS", "1"))
FIRST_SEED = int(os.environ.get("EVERLOG_FUZZ_SEED", "1"))
STEPS = 150
NUMBERS = [0, 1, -1, 2, 31, 32, 96, 1408, 4096, 65535, 65536, 1 << 30, (1 << 31) - 1, -(1 << 31)]
LONG_NUMBERS = [*NUMBERS, 1 << 32, (1 << 62) + 32, (1 << 63) - 1, -(1 << 63)]
KEYS = (
    *(
        "session-id",
        "init-term-id",
        "term-id",
        "term-offset",
        "term-length",
        "mtu",
        "linger",
        "sparse",
        "tether",
        "tags",
    ),
    *("alias", "eos", "ssc", "rejoin", "reliable", "group", "pub-wnd", "max-resend", "untethered-resting-timeout"),
    *("endpoint", "control", "control-mode", "response-correlation-id", "fc", "nak-delay", "interface", "ttl", ""),
)
ADDRESSES = (
    *("endpoint=10.0.0.1:4000", "endpoint=10.0.0.1:4000", "endpoint=10.0.0.1:0", "endpoint=224.0.1.1:4000"),
    *("control=10.0.0.1:4002|control-mode=dynamic", "control-mode=manual", "endpoint=nowhere:1", "endpoint=:"),
    *("control=10.0.0.1:4003|control-mode=response", "endpoint=10.0.0.1:4000|session-id=7"),
    "endpoint=10.0.0.1:4000|mtu=64k",
)
VALUES = (
    "0",
    "1",
    "-1",
    "true",
    "false",
    "64k",
    "1g",
    "1408",
    "99999999999999999999",
    "",
    "x",
    "5s",
    "tag:1",
    "?",
    "1,2",
)
ADDING = (c.AddPublication, c.AddExclusivePublication, c.AddSubscription)
KINDS = (*c.Command.__args__, *ADDING * 4)


class Attack:
    """One client's attack, from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.driver = ConductedDriver()
        self.ids: list[int] = []
        """Registration ids that were given out."""

    def channel(self) -> str:
        draw = self.draw
        if draw.random() < 0.3:
            return "aeron:ipc"
        base = draw.choice(
            ["aeron:ipc", "aeron:ipc", "aeron:udp", "aeron-spy:aeron:ipc", "aeron-spy:aeron:udp", "", "x:"]
        )
        params = [f"{draw.choice(KEYS)}={draw.choice(VALUES)}" for _ in range(draw.choice([0, 0, 1, 2]))]
        if "udp" in base and draw.random() < 0.8:
            params.insert(0, draw.choice(ADDRESSES))
        text = f"{base}?{'|'.join(params)}"
        if draw.random() < 0.1:
            at = draw.randrange(len(text))
            text = text[:at] + chr(draw.randrange(256)) + text[at + 1 :]
        return text

    def number(self) -> int:
        draw = self.draw
        return draw.choice(self.ids) if self.ids and draw.random() < 0.6 else draw.choice(LONG_NUMBERS)

    def text(self) -> str:
        return self.draw.choice(["", "a", "label", "x" * 381, "\u00fc", "y" * 2000])

    def command(self) -> DriverMessage:
        """An encodable command with arbitrary values."""
        draw = self.draw
        kind = draw.choice(KINDS)
        values: list[object] = [draw.randrange(1, 4), self.driver.next_id()]
        for name in [field.name for field in fields(kind)][2:]:
            if name == "channel":
                values.append(self.channel())
            elif name in ("reason", "label"):
                values.append(self.text())
            elif name in ("key", "token"):
                values.append(draw.randbytes(draw.choice([0, 8, 112, 200])))
            elif name == "revoke":
                values.append(draw.random() < 0.5)
            elif name in ("stream_id", "counter_type_id"):
                values.append(10 if draw.random() < 0.8 else draw.choice(NUMBERS))
            else:
                values.append(self.number())
        message: DriverMessage = kind(*values)
        self.ids = [*self.ids[-30:], message.correlation_id]  # type: ignore[attr-defined]
        return message

    def ask(self) -> None:
        self.driver.to_driver.write(*c.encode(self.command()))

    def garble(self) -> None:
        """A damaged command."""
        draw = self.draw
        type_id, data = c.encode(self.command())
        mutable = bytearray(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.3 else data)
        for _ in range(draw.randrange(4)):
            if mutable:
                mutable[draw.randrange(len(mutable))] = draw.randrange(256)
        if draw.random() < 0.2:
            type_id = draw.choice([*range(1, 30), 0xF01, (1 << 31) - 1])
        self.driver.to_driver.write(type_id, bytes(mutable))

    def scribble(self, memory: Memory, count: int = 4) -> None:
        """Write bytes and numbers anywhere."""
        draw = self.draw
        for _ in range(count):
            if draw.random() < 0.5:
                memory.put_i64(draw.randrange(memory.length // 8) * 8, draw.choice(LONG_NUMBERS))
            else:
                memory.put_i32(draw.randrange(memory.length // 4) * 4, draw.choice(NUMBERS))

    def counters(self) -> None:
        """Overwrite values and metadata of counters in use."""
        draw, cnc = self.draw, self.driver.cnc
        for counter_id in draw.choices(sorted(self.driver.counters()) or [0], k=3):
            at = counter_id * 128 + draw.choice([0, 0, 0, 8, 16, 24])
            cnc.counters_values.put_i64(at, draw.choice(LONG_NUMBERS))
        if draw.random() < 0.2:
            self.scribble(cnc.counters_metadata.slice(0, min(100 * 512, cnc.counters_metadata.length)))

    def logs(self) -> None:
        """Overwrite metadata and frames of logs."""
        draw = self.draw
        logs = list(self.driver.logs.logs.values())
        for log in draw.sample(logs, min(len(logs), 3)):
            metadata = log.metadata
            tail = draw.choice(
                [draw.randrange(-(1 << 63), 1 << 63), (log.initial_term_id << 32) + draw.choice(NUMBERS)]
            )
            metadata.put_i64(8 * draw.randrange(3), max(min(tail, (1 << 63) - 1), -(1 << 63)))
            metadata.put_i32(24, draw.choice(NUMBERS))
            self.scribble(metadata.slice(0, 512), 2)
            term = draw.choice(log.terms)
            term.put_i32(draw.choice([0, 32, 1408, term.length - 32]), draw.choice(NUMBERS))

    def ring(self) -> None:
        """Overwrite the command ring buffer, including its trailer."""
        memory = self.driver.cnc.to_driver
        head = self.driver.to_driver.consumer_position % self.driver.to_driver.capacity
        self.scribble(memory.slice(max(0, head // 8 * 8 - 64), 256), 2)
        if self.draw.random() < 0.2:
            at = self.driver.to_driver.capacity + self.draw.choice([128, 256, 384, 512, 640])
            memory.put_i64(at, self.draw.choice(LONG_NUMBERS))

    def work(self) -> None:
        """Run the driver while time passes."""
        driver, draw = self.driver, self.draw
        step_ns = draw.choice([0, MS, MS, 100 * MS, 100 * MS, SECOND, 3 * SECOND])
        driver.now_ns += step_ns
        driver.now_ms += step_ns // MS
        driver.work(draw.randrange(1, 6))
        with contextlib.suppress(DataLost, CorruptData):
            driver.events()

    def run(self, ways: list[Callable[[], None]]) -> None:
        for _ in range(STEPS):
            with contextlib.suppress(EverlogError):  # the attacker's own, such as a ring whose tail it has spoilt
                self.draw.choice(ways)()
            self.work()


def seeds() -> range:
    return range(FIRST_SEED, FIRST_SEED + 1_000_000)


def attack(seed: int, kind: str) -> Attack:
    found = Attack(seed)
    ways = {
        "commands": [found.ask, found.ask, found.garble],
        "counters": [found.ask, found.ask, found.counters],
        "logs": [found.ask, found.ask, found.logs],
        "ring": [found.ask, found.garble, found.ring],
        "all": [found.ask, found.garble, found.counters, found.logs, found.ring],
    }
    try:
        found.run(ways[kind])
    except Exception as error:
        error.add_note(f"kind {kind}, EVERLOG_FUZZ_SEED={seed}")
        raise
    return found


@pytest.mark.parametrize("kind", ["commands", "counters", "logs", "ring", "all"])
def test_a_driver_survives_what_clients_write(kind: str, series: Series) -> None:
    deadline = time.monotonic() + SECONDS * series.effort
    for seed in seeds():
        found = attack(seed, kind)
        if kind in ("commands", "logs"):
            assert_serves(found.driver, seed)
        if time.monotonic() > deadline:
            return


def assert_serves(driver: ConductedDriver, seed: int) -> None:
    """Assert that an honest client can still publish to itself."""
    driver.work(200)
    driver.events()
    stream_id = 4_711
    subscription = c.AddSubscription(99, driver.next_id(), -1, stream_id, "aeron:ipc")
    assert all_of(driver.ask(subscription), c.OnSubscriptionReady), seed
    publication = c.AddExclusivePublication(99, driver.next_id(), stream_id, "aeron:ipc")
    events = driver.ask(publication)
    assert all_of(events, c.OnExclusivePublicationReady), seed
    assert all_of(events, c.OnAvailableImage), seed


def test_a_response_subscription_with_a_session_id_can_be_removed() -> None:
    driver = ConductedDriver()
    channel = "aeron:udp?control=10.0.0.1:4003|control-mode=response|session-id=7"
    registration_id, _ = driver.add_subscription(channel)
    events = driver.ask(c.RemoveSubscription(2, driver.next_id(), registration_id))
    assert all_of(events, c.OnOperationSuccess)
    driver.advance(SECOND)
    assert "rcv-channel" not in " ".join(driver.labels())
