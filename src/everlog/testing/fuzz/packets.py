"""Fuzzing of a driver's packet handling with datagrams that are malformed, truncated, replayed, random, or have wrong
lengths and positions.

``python -m everlog.testing.fuzz.packets --seconds 3600 [--seed N]`` inserts batches into an image of the compiled code
and one of its Python twin, with known bytes around each term in memory. Both must write, count and report the same, and
the known bytes must not change. Subscribers' positions, which hostile processes may write, and frame lengths in the
terms are made up, too. A failing seed is printed.
"""

from __future__ import annotations

import argparse
import importlib
import random
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.driver.receiver import packets_twin, rebuild_twin
from everlog.aeron.transport.format.wire_layouts import TYPE_EXT, TYPE_SETUP
from everlog.errors import MissingDependency
from everlog.kernel import memory_twin, udp_twin
from everlog.kernel.socket_address import SocketAddress

TERM_LENGTH = 64 << 10
GUARD = 4096
"""Known bytes before and after each term: more than any datagram's header reaches."""
CANARY = 0xA5
STREAM, INITIAL_TERM_ID = 1001, 0x7FFFFFFE
SESSIONS = (-77, 5, 0x7FFFFFFF)
"""A session with an image, an ignored one, and an unknown one."""
SOURCE = SocketAddress("10.0.0.1", 40123)
BATCH = 16
EXTREMES = (
    0,
    1,
    -1,
    31,
    32,
    33,
    4096,
    TERM_LENGTH - 32,
    TERM_LENGTH,
    TERM_LENGTH + 32,
    0x7FFFFFE0,
    0x7FFFFFFF,
    -(1 << 31),
)
POSITIONS = (0, 32, TERM_LENGTH, 5 * TERM_LENGTH - 1024, (1 << 31) * TERM_LENGTH - 3 * TERM_LENGTH)
HUGE = (1 << 63) - 1


class Mismatch(AssertionError):
    """Compiled code and its twin differ, or bytes outside of the terms were overwritten."""


@dataclass
class Kernel:
    """The modules and classes of one implementation: compiled or Python twins."""

    packets: Any
    rebuild: Any
    memory: Any
    datagrams: Any

    @staticmethod
    def twin() -> Kernel:
        """Return the Python twins."""
        return Kernel(packets_twin, rebuild_twin, memory_twin.Memory, udp_twin.Datagrams)

    @staticmethod
    def compiled() -> Kernel:
        """Return the compiled modules. Raises :class:`MissingDependency` if they are not built."""
        try:
            packets = importlib.import_module("everlog.aeron.transport.driver.receiver._packets")
            rebuild = importlib.import_module("everlog.aeron.transport.driver.receiver._rebuild")
            memory = importlib.import_module("everlog.kernel._memory").Memory
            datagrams = importlib.import_module("everlog.kernel._udp").Datagrams
        except ImportError as error:
            raise MissingDependency("compiled modules", found=str(error), hint="run make setup") from None
        return Kernel(packets, rebuild, memory, datagrams)


class Side:
    """An image that starts at ``position``, in one implementation."""

    def __init__(self, kernel: Kernel, position: int) -> None:
        self.arena = kernel.memory.allocate(3 * (GUARD + TERM_LENGTH) + GUARD)
        self.arena.write(0, bytes([CANARY]) * len(self.arena))
        starts = [GUARD + i * (GUARD + TERM_LENGTH) for i in range(3)]
        self.terms = [self.arena.slice(start, TERM_LENGTH) for start in starts]
        for term in self.terms:
            term.zero(0, TERM_LENGTH)
        self.counters = kernel.memory.allocate(64)
        self.image = kernel.packets.ImageRebuilder(self.terms, INITIAL_TERM_ID, position, (self.counters, 0))
        self.image.max_window_length = 16 << 10
        self.image.hear(0, 1)
        self.tracker = kernel.rebuild.RebuildTracker(self.terms, position, (self.counters, 8))
        for at in (16, 24):
            self.counters.put_i64(at, position)
            self.tracker.add_subscriber(self.counters, at)
        self.sessions = kernel.packets.ImageSessions()
        self.sessions.add_stream(STREAM)
        self.sessions.put(STREAM, SESSIONS[0], self.image)
        self.sessions.put(STREAM, SESSIONS[1], None)
        self.batch = kernel.datagrams(BATCH, 2048)
        self.set_window(position)

    def set_window(self, position: int) -> None:
        """Set the receive window as if a status message with ``position`` had been sent."""
        self.image.last_sm_position = position
        self.image.over_run_threshold = position + TERM_LENGTH // 2

    def take(self, datagrams: list[bytes], transport: int) -> tuple[Any, ...]:
        """Insert a batch; return everything that the image reports."""
        self.batch.clear()
        for data in datagrams:
            self.batch.add(data, SOURCE)
        received = self.sessions.insert(self.batch, transport, 2, 3)
        sessions = self.sessions
        counts = sessions.invalid, sessions.heartbeats, sessions.under_runs, sessions.over_runs
        return received, *counts, list(sessions.notes), self.image.hwm_position, self.image.time_of_last_packet_ns

    def track(self, positions: tuple[int, int]) -> tuple[Any, ...]:
        """Run one cycle of the conductor; return everything that the tracker reports."""
        for at, position in zip((16, 24), positions, strict=True):
            self.counters.put_i64(at, position)
        tracker, hwm = self.tracker, self.image.hwm_position
        has_gap = tracker.track(hwm)
        rebuilt = tracker.consumption_position, tracker.start_position, tracker.end_position, tracker.gap_length
        rest = tracker.highest_consumption_position(hwm), tracker.join_position(), tracker.is_drained()
        return has_gap, *rebuilt, *rest, self.counters.get_i64(0), self.counters.get_i64(8)

    def check_guards(self) -> None:
        """Raise :class:`Mismatch` if bytes outside of the terms were overwritten."""
        for i in range(4):
            at = i * (GUARD + TERM_LENGTH)
            if self.arena.read(at, GUARD) != bytes([CANARY]) * GUARD:
                raise Mismatch(f"written outside of the terms, around {at}")


@dataclass
class Maker:
    """Generates datagrams. ``position`` is the position that an honest source has reached."""

    random: random.Random
    position: int
    sent: list[bytes] = field(default_factory=list)

    def datagram(self) -> bytes:
        """Return a datagram of a random kind."""
        kinds: list[Callable[[], bytes]] = [self._honest, self._honest, self._honest, self._mutated, self._mutated]
        kinds += [self._cut, self._replayed, self._random, self._headed, self._heartbeat]
        data = self.random.choice(kinds)()
        self.sent = [*self.sent[-63:], data]
        return data

    def _frame(self, position: int, length: int, kind: int = 1) -> bytes:
        draw = self.random
        term_id = (INITIAL_TERM_ID + position // TERM_LENGTH + (1 << 31)) % (1 << 32) - (1 << 31)
        session = draw.choices(SESSIONS, (20, 1, 1))[0]
        flags = draw.choice((0xC0, 0x80, 0x40, 0x00, 0xE0, 0xF0))
        place = position % TERM_LENGTH, session, STREAM, term_id, 0
        payload = draw.randbytes(max(length - DataHeader.size, 0)) if kind == 1 else b""
        return DataHeader.struct.pack(length, 0, flags, kind, *place) + payload + bytes(-len(payload) % 32)

    def _honest(self) -> bytes:
        draw, start = self.random, self.position
        if draw.random() < 0.3:
            start = max(0, start + draw.randrange(-TERM_LENGTH, TERM_LENGTH, 32))
        parts: list[bytes] = []
        at = start
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            room = TERM_LENGTH - at % TERM_LENGTH
            length = min(draw.choice((32, 33, 64, 200, 600)), room)
            parts.append(self._frame(at, length))
            at += (length + 31) & -32
            if at % TERM_LENGTH == 0:
                break
        if at % TERM_LENGTH and draw.random() < 0.05:
            length = draw.choice((32, 64, TERM_LENGTH - at % TERM_LENGTH))
            parts.append(self._frame(at, length, kind=0))
            at += length
        if start == self.position and draw.random() < 0.9:
            self.position = at
        return b"".join(parts)

    def _heartbeat(self) -> bytes:
        return struct.pack("<i", 0) + self._frame(max(0, self.position + self.random.choice((0, 0, -64, 4096))), 32)[4:]

    def _mutated(self) -> bytes:
        data = bytearray(self._honest())
        for _ in range(self.random.choice((1, 1, 2, 3))):
            at = self.random.choice((0, 0, 4, 5, 6, 8, 8, 12, 16, 20, 20, self.random.randrange(len(data))))
            if self.random.random() < 0.7 and at + 4 <= len(data):
                struct.pack_into("<i", data, at, self.random.choice(EXTREMES))
            else:
                data[at] = self.random.randrange(256)
        return bytes(data)

    def _cut(self) -> bytes:
        data = self._honest()
        return data[: self.random.randrange(len(data))]

    def _replayed(self) -> bytes:
        return self.random.choice(self.sent) if self.sent else b""

    def _random(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 7, 8, 9, 31, 32, 40, 64, 1408)))

    def _headed(self) -> bytes:
        kind = self.random.choice((*range(13), TYPE_SETUP, TYPE_EXT))
        return struct.pack("<iBBH", self.random.choice(EXTREMES), 0, 0, kind) + self._random()


def run_once(seed: int, kernels: tuple[Kernel, ...], batches: int = 60) -> int:
    """Insert batches into one image of each implementation; return the number of datagrams. Raises
    :class:`Mismatch`."""
    draw = random.Random(seed)
    start = draw.choice(POSITIONS)
    sides = [Side(kernel, start) for kernel in kernels]
    maker = Maker(draw, start)
    count = 0
    for _ in range(batches):
        datagrams = [maker.datagram() for _ in range(draw.randint(1, BATCH))]
        count += len(datagrams)
        transport = draw.choice((0, 0, 0, 1, 1023))
        _same("batch", [side.take(datagrams, transport) for side in sides])
        positions = _positions(draw, sides[0])
        _same("rebuilt", [side.track(positions) for side in sides])
        consumed = sides[0].tracker.consumption_position
        for side in sides:
            side.tracker.clean_to(consumed - TERM_LENGTH)
            side.set_window(consumed)
        if draw.random() < 0.1:
            at, length = draw.randrange(0, TERM_LENGTH, 32), draw.choice(EXTREMES)
            for side in sides:
                side.terms[0].put_i32(at, length)
        maker.position = max(maker.position, 0)
    for side in sides:
        side.check_guards()
    _same("terms", [side.arena.read(0, len(side.arena)) for side in sides])
    return count


def _positions(draw: random.Random, side: Side) -> tuple[int, int]:
    """Return plausible or impossible positions of the two subscribers."""
    honest = side.tracker.end_position
    made_up = (honest, honest, honest, honest - 64, 0, -1, HUGE, -HUGE, honest + 32, honest + 17)
    return draw.choice(made_up), draw.choice(made_up)


def _same(what: str, results: list[Any]) -> None:
    if any(each != results[0] for each in results):
        raise Mismatch(f"{what}: {results}" if what != "terms" else "terms differ")


def fuzz(seconds: float, first_seed: int) -> int:
    """Fuzz for ``seconds``; return the number of datagrams. Raises :class:`Mismatch`, which names the seed."""
    kernels = Kernel.compiled(), Kernel.twin()
    end = time.monotonic() + seconds
    seed, count = first_seed, 0
    while time.monotonic() < end:
        try:
            count += run_once(seed, kernels)
        except Exception as error:
            raise Mismatch(f"seed {seed}: {error}") from error
        seed += 1
    return count


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a seed failed."""
    parser = argparse.ArgumentParser(description="Fuzz a driver's packet handling.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        count = fuzz(given.seconds, given.seed)
    except Mismatch as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{count} datagrams, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
