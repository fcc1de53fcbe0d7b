"""Drivers and publishers that mean harm: a client says so or goes on, whatever they write into the memory that it
shares with them.

``EVERLOG_FUZZ_SECONDS`` (default 1) is the time for each kind where series run in full, ``EVERLOG_FUZZ_SEED`` where it
starts; a failure names its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import fields

import pytest

from everlog.aeron.transport.client.appending.appenders import BufferClaim
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler, MessageColumns
from everlog.aeron.transport.protocol import commands as c
from everlog.aeron.transport.protocol.command_messages import DriverMessage
from everlog.errors import EverlogError
from everlog.kernel.memory import Memory
from everlog.testing.series import Series
from tests.aeron.transport.client.scripted_driver import ScriptedDriver

SECONDS = float(os.environ.get("EVERLOG_FUZZ_SECONDS", "1"))
FIRST_SEED = int(os.environ.get("EVERLOG_FUZZ_SEED", "1"))
STEPS = 200
NUMBERS = [0, 1, -1, 2, 7, 31, 32, 33, 96, 1408, 4096, 65503, 65536, 1 << 30, (1 << 31) - 1, -(1 << 31)]
LONG_NUMBERS = [*NUMBERS, 1 << 32, (1 << 62) + 32, (1 << 63) - 1, -(1 << 63)]
SHORT = (
    *("session_id", "stream_id", "error_code", "subscriber_position_id"),
    *("position_limit_counter_id", "channel_status_id", "counter_id"),
)
"""Fields of 32 bits."""
HEADERS = [0, 4, 5, 6, 8, 12, 16, 20, 24]
"""Where the fields of a frame's header are."""


class Attack:
    """One driver's malice, by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.assembler = FragmentAssembler(lambda payload, header: None)
        self.columns = MessageColumns(max_rows=64, max_bytes=4096)
        self.ids = [1]
        self.polled = 0
        self.offered = 0
        self.begin()

    def begin(self) -> None:
        """A new driver, and a client with publications and subscriptions, one of which has an image."""
        self.driver = ScriptedDriver()
        self.driver.grant_all()
        self.client = self.driver.client(on_error=lambda error: None)
        self.shared = self.client.add_publication("aeron:ipc", 5)
        self.exclusive = self.client.add_exclusive_publication("aeron:ipc", 6)
        self.subscription = self.client.add_subscription("aeron:ipc", 5)
        ids = [getattr(command, "correlation_id", 0) for command in self.driver.said]
        self.ids = [*ids, *range(3)]
        self.fill()

    def fill(self) -> None:
        """Messages, and an image that has them."""
        with contextlib.suppress(EverlogError):
            for number in range(20):
                self.offered += self.shared.offer(bytes(number * 131)) > 0
            name = self.draw.choice(list(self.driver.logs))
            self.driver.show_image(self.subscription.registration_id, self.draw.randrange(1 << 20), name)

    def number(self) -> int:
        """An id that is known, or any number."""
        return self.draw.choice(self.ids) if self.draw.random() < 0.5 else self.draw.choice(LONG_NUMBERS)

    def event(self) -> DriverMessage:
        """One that can be encoded; what it says is another matter."""
        draw = self.draw
        kind: type[DriverMessage] = draw.choice(c.Event.__args__)
        values: list[object] = []
        for field in fields(kind):
            if field.name == "log_file_name":
                values.append(draw.choice([*self.driver.logs, "", "/nowhere"]))
            elif field.name in ("channel", "message", "source_identity"):
                values.append(draw.choice(["", "aeron:ipc", "x" * 500]))
            elif field.name == "address":
                values.append(("127.0.0.1", draw.randrange(1 << 16)))
            elif field.name in SHORT:
                values.append(draw.choice(NUMBERS))
            else:
                values.append(self.number())
        return kind(*values)

    def tell(self) -> None:
        self.driver.tell(self.event())

    def garble(self) -> None:
        """An event that is damaged."""
        draw = self.draw
        type_id, data = c.encode(self.event())
        mutable = bytearray(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.3 else data)
        for _ in range(draw.randrange(4)):
            if mutable:
                mutable[draw.randrange(len(mutable))] = draw.randrange(256)
        self.driver.broadcast.transmit(type_id, bytes(mutable[:512]))

    def scribble(self, memory: Memory, count: int = 3) -> None:
        """Numbers anywhere."""
        draw = self.draw
        for _ in range(count):
            if draw.random() < 0.5:
                memory.put_i64(draw.randrange(memory.length // 8) * 8, draw.choice(LONG_NUMBERS))
            else:
                memory.put_i32(draw.randrange(memory.length // 4) * 4, draw.choice(NUMBERS))

    def broadcast(self) -> None:
        self.scribble(self.driver.memory.to_clients)
        if self.draw.random() < 0.3:
            at = self.driver.broadcast.capacity + 8 * self.draw.randrange(3)
            self.driver.memory.to_clients.put_i64(at, self.draw.choice(LONG_NUMBERS))

    def counters(self) -> None:
        """Limits, positions and what counters are."""
        for counter_id in range(8):
            if self.draw.random() < 0.3:
                self.driver.memory.counters_values.put_i64(128 * counter_id, self.draw.choice(LONG_NUMBERS))
        self.scribble(self.driver.memory.counters_metadata.slice(0, 8 * 512))

    def frames(self) -> None:
        """Headers of frames, and anything behind them."""
        draw = self.draw
        log = draw.choice(list(self.driver.logs.values()))
        term = draw.choice([log.terms[0], log.terms[0], log.terms[1], log.terms[2]])
        for _ in range(4):
            frame = draw.choice([0, 32, 64, 96, 1408, 4096, term.length - 32, draw.randrange(term.length // 32) * 32])
            field = draw.choice(HEADERS)
            term.put_i32(frame + field // 4 * 4, draw.choice(NUMBERS))

    def metadata(self) -> None:
        """Tails, term counts, ends, and what never changes."""
        draw = self.draw
        log = draw.choice(list(self.driver.logs.values()))
        at = draw.choice([0, 8, 16, 24, 128, 136, 264, 268, 272, 276, 320, 496])
        if at < 24 or at == 128:
            value = draw.choice([draw.choice(LONG_NUMBERS), (draw.randrange(4) << 32) + draw.choice(NUMBERS)])
            log.metadata.put_i64(at, value)
        else:
            log.metadata.put_i32(at, draw.choice(NUMBERS))

    # What the program does meanwhile

    def program(self) -> None:
        draw = self.draw
        claim = BufferClaim()
        for publication in (self.shared, self.exclusive):
            publication.offer(bytes(draw.choice([0, 1, 100, 1376, 5000])))
            publication.offer_many([bytes(draw.choice([0, 33, 2000]))] * 5)
            if publication.try_claim(draw.choice([0, 64, 1376]), claim) > 0:
                claim.commit()
            str(publication)
        for image in self.subscription.images:
            str((image.position, image.is_end_of_stream, image.end_of_stream_position, image.active_transport_count))
        subscription = self.subscription
        self.polled += subscription.poll(self.assembler, 5)
        self.polled += subscription.poll(lambda payload, header: header.position, 5)
        self.polled += subscription.controlled_poll(lambda payload, header: None, 5)
        self.polled += subscription.block_poll(lambda block, session_id, term_id: bytes(block), 4096)
        self.polled += subscription.raw_poll(lambda offset, block, session_id, term_id: bytes(block), 4096)
        self.polled += subscription.poll_columns(self.columns)
        self.columns.to_list()

    def work(self) -> None:
        """The client goes on; time passes. What ends it is an error of ours; then there is a new one."""
        self.driver.pass_ms(self.draw.choice([0, 1, 100, 600]))
        self.driver.work()
        for part in (self.client.do_work, self.program, lambda: list(self.client.counters)):
            with contextlib.suppress(EverlogError):
                part()
        if self.client.is_closed or self.draw.random() < 0.05:
            self.begin()

    def run(self, ways: list[Callable[[], None]]) -> None:
        for _ in range(STEPS):
            with contextlib.suppress(EverlogError):
                self.draw.choice(ways)()
            self.work()


def attack(seed: int, kind: str) -> Attack:
    try:
        found = Attack(seed)
        ways = {
            "events": [found.tell, found.tell, found.garble],
            "broadcast": [found.tell, found.broadcast],
            "counters": [found.counters, found.fill],
            "frames": [found.frames, found.frames, found.fill],
            "metadata": [found.metadata, found.frames, found.fill],
        }
        ways["all"] = [way for some in ways.values() for way in some]
        found.run(ways[kind])
        return found
    except Exception as error:
        error.add_note(f"kind {kind}, EVERLOG_FUZZ_SEED={seed}")
        raise


@pytest.mark.parametrize("kind", ["events", "broadcast", "counters", "frames", "metadata", "all"])
def test_a_client_survives_what_others_write(kind: str, series: Series) -> None:
    deadline = time.monotonic() + SECONDS * series.effort
    seed, polled, offered = FIRST_SEED, 0, 0
    while seed == FIRST_SEED or time.monotonic() < deadline:
        found = attack(seed, kind)
        polled, offered, seed = polled + found.polled, offered + found.offered, seed + 1
    assert polled > 20
    assert offered > 20, "or nothing was tried"
