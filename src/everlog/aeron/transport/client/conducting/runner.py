"""Who drives a client's conductor: the clock, the lock, the client's threads, waiting for answers. Two threads belong
to a client: one reads the driver's events and calls the program's handlers, one beats
(:mod:`everlog.aeron.transport.client.conducting.pacemaker`)."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from everlog.aeron.mark_file import now_ms
from everlog.aeron.transport.client.conducting.conductor import ClientConductor, DriverMemory
from everlog.aeron.transport.client.conducting.pacemaker import Pacemaker
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.errors import ClientClosed, DriverTimeout, ended
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.core.forking import OpenObjects
from everlog.errors import EverlogError, UsageError
from everlog.time_units import NS_PER_S

T = TypeVar("T")
FIRST_SLEEP_NS = 20_000
"""A driver that spins answers sooner than one that sleeps: a wait begins with short sleeps."""
BEATS_IN_TIMEOUT = 4


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as a client sees it: replaced in simulations."""

    now_ns: Callable[[], int] = time.monotonic_ns
    now_ms: Callable[[], int] = now_ms
    sleep: Callable[[float], None] = time.sleep


class ClientRunner:
    """One client and what runs it. Safe for many threads; not for a copy of the process (``fork``), in which it has
    ended."""

    def __init__(
        self,
        driver: DriverMemory,
        map_log: Callable[[str], LogMemory],
        options: ClientOptions,
        clock: Clock | None = None,
    ) -> None:
        self.options = options
        self._clock = Clock() if clock is None else clock
        self._liveness_timeout_ns = driver.client_liveness_timeout_ns
        self._conductor: ClientConductor | None = ClientConductor(driver, map_log, options, self)
        self.client_id = self._conductor.client_id
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pacemaker: Pacemaker | None = None
        self._beating: threading.Thread | None = None
        self._failure: EverlogError | None = None
        _open.add(self)

    # Duty

    def start(self) -> None:
        """Let a thread do the work."""
        self._thread = threading.Thread(target=self._run, name=f"aeron-client-{self.client_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self.work():
                self._stopping.wait(self.options.idle_sleep_ns / NS_PER_S)

    def work(self) -> int:
        """Beat, look after the driver, read its events, unless another thread does just now; how much was done."""
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            conductor = self._conductor
            if conductor is None or conductor.is_ended or conductor.handlers.is_calling:
                return 0
            done = conductor.do_work(self._clock.now_ns(), self._clock.now_ms())
            self._look_after_pacemaker(conductor)
            return done
        finally:
            self._lock.release()

    def _look_after_pacemaker(self, conductor: ClientConductor) -> None:
        """Start it when the driver has made the client's counter, stop it when the client has ended."""
        liveness = conductor.liveness
        if conductor.is_ended:
            self._stop_pacemaker()
        elif liveness.pacemaker is None and liveness.counter_id is not None and not self.options.use_invoker:
            interval_ns = min(self.options.keep_alive_interval_ns, self._liveness_timeout_ns // BEATS_IN_TIMEOUT)
            metadata, values = conductor.counters.metadata, conductor.counters.values
            self._pacemaker = liveness.pacemaker = Pacemaker(
                metadata, values, liveness.counter_id, self.client_id, interval_ns, self._liveness_timeout_ns
            )
            name = f"aeron-heartbeat-{self.client_id}"
            self._beating = threading.Thread(target=self._pacemaker.run, name=name, daemon=True)
            self._beating.start()

    def _stop_pacemaker(self) -> None:
        if self._pacemaker is not None and self._beating is not None:
            self._pacemaker.stop()
            # At most as long as it takes to wake up.
            self._beating.join()
            self._pacemaker = self._beating = None

    # Waiting

    def wait(self, registration: Registration[Any], timeout: float | None) -> None:
        """Until it is done. Raises :class:`UsageError` in a handler; a registration that took too long is cancelled."""
        self.check_outside_handlers(registration.what)
        limit_ns = self.options.driver_timeout_ns if timeout is None else round(timeout * NS_PER_S)
        deadline_ns = self._clock.now_ns() + limit_ns
        sleep_ns = FIRST_SLEEP_NS
        try:
            while self.work() >= 0 and not registration.done:
                if self._clock.now_ns() >= deadline_ns:
                    self._give_up(registration, limit_ns)
                    return
                self._clock.sleep(sleep_ns / NS_PER_S)
                sleep_ns = min(sleep_ns * 2, self.options.await_sleep_ns)
        except BaseException:
            self.cancel(registration)
            raise

    def cancel(self, registration: Registration[Any]) -> None:
        """Give it up; what the driver grants is given back."""
        with self._lock:
            if self._conductor is not None:
                error = ClientClosed(registration.what, found="it was cancelled", expected="an answer")
                self._conductor.cancel(registration, error)

    def _give_up(self, registration: Registration[Any], limit_ns: int) -> None:
        found = f"no answer of the driver in {limit_ns / NS_PER_S:g} s"
        error = DriverTimeout(
            registration.what, found=found, expected="one", hint="is the driver overloaded or stopped?"
        )
        with self._lock:
            if self._conductor is not None:
                self._conductor.cancel(registration, error)

    def check_outside_handlers(self, what: str) -> None:
        """Raises :class:`UsageError` where a handler of this thread would wait for what only this thread can do."""
        with self._calls() as conductor:
            if conductor.handlers.is_calling:
                hint = "use the async_ method in handlers, and wait elsewhere"
                raise UsageError(what, found="a call that waits, in a handler", expected="one outside", hint=hint)

    # For all that ask something of the conductor

    @contextmanager
    def _calls(self) -> Iterator[ClientConductor]:
        """The conductor, for this thread alone. Raises what ended the client."""
        with self._lock:
            if self._conductor is None:
                raise ended("client", self._failure)
            yield self._conductor

    def ask(self, command: Callable[[ClientConductor], T]) -> T:
        """Call the conductor. Raises what ended the client."""
        with self._calls() as conductor:
            conductor.check_open()
            return command(conductor)

    @property
    def failure(self) -> EverlogError | None:
        """What ended the client, if it was not the program."""
        conductor = self._conductor
        return self._failure if conductor is None else conductor.failure

    @property
    def is_ended(self) -> bool:
        """Whether the program or something else has ended the client."""
        conductor = self._conductor
        return conductor is None or conductor.is_ended

    @property
    def counters(self) -> CountersReader:
        """The driver's counters. Raises what ended the client."""
        return self.ask(lambda conductor: conductor.counters)

    def close_publication(self, registration_id: int, *, revoke: bool) -> None:
        """As the conductor does; nothing once the client has ended."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.commands.close_publication(registration_id, revoke=revoke)

    def close_subscription(self, registration_id: int) -> None:
        """As the conductor does; nothing once the client has ended."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.close_subscription(registration_id)

    def close_counter(self, correlation_id: int) -> None:
        """As the conductor does; nothing once the client has ended."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.commands.close_counter(correlation_id)

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """As the conductor does."""
        return self.ask(lambda conductor: conductor.commands.destination(kind, registration_id, channel))

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """As the conductor does."""
        return self.ask(lambda conductor: conductor.commands.reject_image(image_correlation_id, position, reason))

    # The end

    def close(self) -> None:
        """End the client, and drop all memory that is shared with the driver; a second call does nothing."""
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            conductor, self._conductor = self._conductor, None
            self._stop_pacemaker()
            if conductor is not None:
                self._failure = conductor.failure
                conductor.close()
        _open.discard(self)

    def abandon(self) -> None:
        """The client has ended in this copy of the process; the one that made it goes on."""
        # Who held the lock is not in this process.
        self._lock = threading.RLock()
        self._thread = None
        conductor, self._conductor = self._conductor, None
        # Its thread is not here either; to stop it would wake the one over there.
        self._pacemaker = self._beating = None
        hint = "connect anew in each process"
        self._failure = ClientClosed(
            "client", found="one of the process that forked this one", expected="its own", hint=hint
        )
        if conductor is not None:
            conductor.abandon(self._failure)


_open = OpenObjects[ClientRunner](lambda runner: runner.abandon())


def _close_all() -> None:
    # The driver need not wait for the timeout to know that the program has ended.
    for session in _open:
        session.close()


atexit.register(_close_all)
