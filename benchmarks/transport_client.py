"""Our client in a process of its own, timed: ``python -m benchmarks.transport_client FOLDER client``, on a media driver
that runs in ``FOLDER``. ``TransportBench.java`` is the real one's twin, with the same commands and answers.

On stdin, each answered with ``ok MESSAGES SECONDS`` or ``error ...``:

* ``one CHANNEL STREAM PAYLOAD_BYTES MESSAGES BURST``: one thread offers up to ``BURST`` messages, then polls them all
  and copies the payloads, and so on. As in Java, it is the same message again and again;
* ``publish`` and ``subscribe CHANNEL STREAM PAYLOAD_BYTES MESSAGES IDLE``: the two ends in two processes. ``IDLE`` is
  ``spin`` (for some microseconds, then the processor is let go) or ``backoff`` (as Aeron's agents by default). The
  subscriber says ``waiting`` first; its time is that from the first message until the last, payloads copied;
* ``ping`` and ``pong CHANNEL STREAM PAYLOAD_BYTES MESSAGES``: round trips, busy spinning; the ping's time is the
  median of one. What is sent comes back on the next stream. ``pong`` says ``waiting`` first;
* ``offers`` and ``handlers`` as ``one``: only the time in single offers of a bytes object, or only that in polls with a
  Python handler.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat

from everlog.aeron import Aeron
from everlog.aeron.transport.client.images.image_reader import MessageColumns
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.subscription import Subscription

COPIED_BYTES = 128 << 10
"""Of payloads that lie copied at a time: they stay in the processor's cache."""
ROWS = 1024
"""Messages that are offered with one call."""
SPINS_BEFORE_YIELD = 16
WAIT_SECONDS = 120.0
WARM_UP_ROUND_TRIPS = 10_000
FRAGMENTS_OF_A_POLL = 1024
MIN_SLEEP_SECONDS, MAX_SLEEP_SECONDS = 1e-6, 1e-3
SPINS, YIELDS = 10, 20
"""Of Aeron's backoff, as its limits of a sleep above."""


class Idle:
    """What to do with nothing to do."""

    def __init__(self, name: str) -> None:
        self._backs_off = name == "backoff"
        self._count = 0

    def __call__(self, work: int) -> None:
        if work > 0:
            self._count = 0
            return
        self._count += 1
        if not self._backs_off:
            if self._count % SPINS_BEFORE_YIELD == 0:
                os.sched_yield()
        elif self._count > SPINS + YIELDS:
            time.sleep(min(MIN_SLEEP_SECONDS * 2.0 ** min(self._count - SPINS - YIELDS - 1, 20), MAX_SLEEP_SECONDS))
        elif self._count > SPINS:
            os.sched_yield()


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    """Until ``is_done``; raises :class:`TimeoutError`."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_done():
        if time.monotonic() > end:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(0.001)


class Bench:
    """What was opened for a channel and stream stays open for the next command with them."""

    def __init__(self, folder: str) -> None:
        self.aeron = Aeron.connect(folder)
        self._in_use: tuple[str, int] | None = None
        self._publication: ExclusivePublication | None = None
        self._subscription: Subscription | None = None
        self._columns = MessageColumns(max_bytes=COPIED_BYTES, positions=False)

    def run(self, words: list[str]) -> tuple[int, float]:
        """Messages and seconds of a command."""
        verb, channel, stream, payload_bytes, messages, *rest = words
        if self._in_use != (channel, int(stream)):
            self._close()
            self._in_use = (channel, int(stream))
        works: dict[str, Callable[..., float]] = {
            "one": self.one,
            "offers": self.offers,
            "handlers": self.handlers,
            "publish": self.publish,
            "subscribe": self.subscribe,
            "ping": self.ping,
            "pong": self.pong,
        }
        return int(messages), works[verb](int(payload_bytes), int(messages), *rest)

    def one(self, payload_bytes: int, messages: int, burst: str) -> float:
        """Lists in, columns out."""
        publication, subscription = self._both(0, 0)
        batch = [bytes(payload_bytes)] * int(burst)
        columns, idle = self._columns, Idle("spin")
        sent = got = got_bytes = 0
        begin = time.perf_counter()
        while got < messages:
            count = publication.offer_many(batch, max(0, len(batch) - (messages - sent)))
            sent += max(count, 0)
            polled = 0
            while got < sent and (found := subscription.poll_columns(columns)):
                polled += found
                got += found
                got_bytes += columns.byte_count
            idle(count + polled)
        return checked(time.perf_counter() - begin, (got, got_bytes), messages, payload_bytes)

    def offers(self, payload_bytes: int, messages: int, burst: str) -> float:
        """One ``offer`` after the other."""
        publication, subscription = self._both(0, 0)
        columns, message = self._columns, bytes(payload_bytes)
        offer, sent, got, took = publication.offer, 0, 0, 0.0
        while got < messages:
            count = min(int(burst), messages - sent)
            begin = time.perf_counter()
            accepted = 0
            for _ in repeat(None, count):
                if offer(message) < 0:
                    break
                accepted += 1
            took += time.perf_counter() - begin
            sent += accepted
            while found := subscription.poll_columns(columns):
                got += found
        return took

    def handlers(self, payload_bytes: int, messages: int, _: str) -> float:
        """A call of a Python function for each message."""
        publication, subscription = self._both(0, 0)
        batch = [bytes(payload_bytes)] * ROWS
        got_bytes = sent = got = 0
        took = 0.0

        def handler(payload: bytes, header: object) -> None:
            nonlocal got_bytes
            got_bytes += len(payload)

        while got < messages:
            sent += max(publication.offer_many(batch, max(0, ROWS - (messages - sent))), 0)
            begin = time.perf_counter()
            while fragments := subscription.poll(handler, FRAGMENTS_OF_A_POLL):
                got += fragments
            took += time.perf_counter() - begin
        return checked(took, (got, got_bytes), messages, payload_bytes)

    def publish(self, payload_bytes: int, messages: int, idle_name: str) -> float:
        """Lists."""
        publication = self._publish_on(0)
        wait_for("a subscriber", lambda: publication.is_connected)
        batch = [bytes(payload_bytes)] * ROWS
        idle, sent = Idle(idle_name), 0
        begin = time.perf_counter()
        while sent < messages:
            count = publication.offer_many(batch, max(0, ROWS - (messages - sent)))
            sent += max(count, 0)
            idle(count)
        return time.perf_counter() - begin

    def subscribe(self, payload_bytes: int, messages: int, idle_name: str) -> float:
        """Columns."""
        subscription = self._subscribe_to(0)
        say("waiting")
        columns, idle = self._columns, Idle(idle_name)
        got = got_bytes = 0
        begin, end = 0.0, time.monotonic() + WAIT_SECONDS
        while got < messages:
            rows = subscription.poll_columns(columns)
            if rows:
                begin = begin or time.perf_counter()
                got += rows
                got_bytes += columns.byte_count
            elif time.monotonic() > end:
                raise TimeoutError(f"waited too long for message {got}")
            idle(rows)
        return checked(time.perf_counter() - begin, (got, got_bytes), messages, payload_bytes)

    def ping(self, payload_bytes: int, messages: int) -> float:
        """Single messages, as bytes objects."""
        publication, subscription = self._both(0, 1)
        message, times = bytes(payload_bytes), array("q")
        offer, clock = publication.offer, time.perf_counter_ns
        (image,) = subscription.images
        poll = image.poll
        for _ in range(messages + min(WARM_UP_ROUND_TRIPS, messages)):
            begin = clock()
            while offer(message) < 0:
                pass
            while not poll(ignore, 1):
                pass
            times.append(clock() - begin)
        return statistics.median(times[-messages:]) / 1e9

    def pong(self, _: int, messages: int) -> float:
        """Each as it comes."""
        subscription, publication = self._subscribe_to(0), self._publish_on(1)
        say("waiting")
        wait_for("the other end", lambda: subscription.is_connected and publication.is_connected)
        offer = publication.offer
        (image,) = subscription.images
        poll = image.poll

        def answer(payload: bytes, header: object) -> None:
            while offer(payload) < 0:
                pass

        left = messages + min(WARM_UP_ROUND_TRIPS, messages)
        begin = time.perf_counter()
        while left:
            left -= poll(answer, 1)
        return time.perf_counter() - begin

    def _both(self, publish_on: int, subscribe_to: int) -> tuple[ExclusivePublication, Subscription]:
        subscription, publication = self._subscribe_to(subscribe_to), self._publish_on(publish_on)
        wait_for("the other end", lambda: subscription.is_connected and publication.is_connected)
        return publication, subscription

    def _publish_on(self, further: int) -> ExclusivePublication:
        if self._publication is None:
            assert self._in_use is not None
            self._publication = self.aeron.add_exclusive_publication(self._in_use[0], self._in_use[1] + further)
        return self._publication

    def _subscribe_to(self, further: int) -> Subscription:
        if self._subscription is None:
            assert self._in_use is not None
            self._subscription = self.aeron.add_subscription(self._in_use[0], self._in_use[1] + further)
        return self._subscription

    def _close(self) -> None:
        if self._publication is not None:
            self._publication.close()
        if self._subscription is not None:
            self._subscription.close()
        self._publication = self._subscription = None


def checked(took: float, found: tuple[int, int], messages: int, payload_bytes: int) -> float:
    """The time, if all arrived."""
    if found != (messages, messages * payload_bytes):
        raise AssertionError(f"{found[0]} messages of {found[1]} bytes, not {messages} of {payload_bytes} each")
    return took


def ignore(payload: bytes, header: object) -> None:
    """A handler."""


def say(line: str) -> None:
    """To whoever runs this."""
    print(line, flush=True)


def answers(bench: Bench, lines: Iterator[str]) -> Iterator[str]:
    """One for each command."""
    for line in lines:
        if line.strip() == "close":
            return
        try:
            messages, took = bench.run(line.split())
        except Exception as error:  # whatever it is, the other side must not wait
            yield f"error {type(error).__name__} {error}".replace("\n", " ")
        else:
            yield f"ok {messages} {took:.9f}"


def main(arguments: list[str]) -> None:
    """``FOLDER client``: the commands of stdin, until its end."""
    bench = Bench(arguments[0])
    say("ready")
    for answer in answers(bench, sys.stdin):
        say(answer)
    with suppress(Exception):
        bench.aeron.close()


if __name__ == "__main__":
    main(sys.argv[1:])
