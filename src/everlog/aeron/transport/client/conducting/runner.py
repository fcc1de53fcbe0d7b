"""Drives a client's conductor: has the clock, the lock and the client's threads, and waits for answers. A client has
two threads: one reads the driver's events and calls the program's handlers, one writes the heartbeat
(:mod:`everlog.aeron.transport.client.conducting.pacemaker`)."""

from __future__ import annotations

import atexit
import os
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
from everlog.aeron.transport.client.errors import DriverTimeout, closed_error
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.core.forking import OpenObjects
from everlog.errors import Closed, EverlogError, UsageError
from everlog.runtime.quiet import BUSY
from everlog.time_units import NS_PER_S

T = TypeVar("T")
YIELDS = 64
"""How often a wait looks for the answer, and yields, before it sleeps: a driver that is awake answers within some
microseconds, and the shortest sleep takes longer. Where the two share a processor, a wait that spins would hold up the
driver."""
FIRST_SLEEP_NS = 20_000
"""First sleep of a wait, doubled each time: a busy-spinning driver answers quickly."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The client's clock; simulations replace it."""

    now_ns: Callable[[], int] = time.monotonic_ns
    now_ms: Callable[[], int] = now_ms
    sleep: Callable[[float], None] = time.sleep
    give_way: Callable[[], None] = os.sched_yield


class ClientRunner:
    """Runs one client. Thread-safe. In a forked child process the client has ended."""

    def __init__(
        self,
        driver: DriverMemory,
        map_log: Callable[[str], LogMemory],
        options: ClientOptions,
        clock: Clock | None = None,
    ) -> None:
        self.options = options
        self.clock = Clock() if clock is None else clock
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
        """Start the thread that does the work."""
        self._thread = threading.Thread(target=self._run, name=f"aeron-client-{self.client_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self.work():
                self._stopping.wait(self.options.idle_sleep_ns / NS_PER_S)

    def work(self) -> int:
        """Do one duty cycle of the conductor, unless another thread is doing it. Returns the amount of work done."""
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            conductor = self._conductor
            if conductor is None or conductor.is_ended or conductor.handlers.is_calling:
                return 0
            done = conductor.do_work(self.clock.now_ns(), self.clock.now_ms())
            self._manage_pacemaker(conductor)
            return done
        finally:
            self._lock.release()

    def quiet_until(self) -> int:
        """The conductor's; ``BUSY`` after the end, or while another thread has the conductor."""
        if not self._lock.acquire(blocking=False):
            return BUSY
        try:
            return BUSY if self._conductor is None else self._conductor.quiet_until()
        finally:
            self._lock.release()

    def _manage_pacemaker(self, conductor: ClientConductor) -> None:
        """Start the pacemaker once the driver has allocated the client's counter; stop it when the client has ended."""
        liveness = conductor.liveness
        if conductor.is_ended:
            self._stop_pacemaker()
        elif liveness.pacemaker is None and liveness.counter_id is not None and not self.options.use_invoker:
            metadata, values = conductor.counters.metadata, conductor.counters.values
            self._pacemaker = liveness.pacemaker = Pacemaker(
                *(metadata, values, liveness.counter_id, self.client_id),
                *(liveness.interval_ns, self._liveness_timeout_ns),
            )
            name = f"aeron-heartbeat-{self.client_id}"
            self._beating = threading.Thread(target=self._pacemaker.run, name=name, daemon=True)
            self._beating.start()

    def _stop_pacemaker(self) -> None:
        if self._pacemaker is not None and self._beating is not None:
            self._pacemaker.stop()
            self._beating.join()  # returns as soon as the thread wakes up
            self._pacemaker = self._beating = None

    # Waiting

    def wait(self, registration: Registration[Any], timeout_s: float | None) -> None:
        """Wait until the registration is done; cancel it after the timeout. Raises :class:`UsageError` if called in a
        handler."""
        self.check_outside_handlers(registration.what)
        limit_ns = self.options.driver_timeout_ns if timeout_s is None else round(timeout_s * NS_PER_S)
        deadline_ns = self.clock.now_ns() + limit_ns
        sleep_ns, yields = FIRST_SLEEP_NS, YIELDS
        try:
            while self.work() >= 0 and not registration.done:
                if yields:
                    yields -= 1
                    self.clock.give_way()
                    continue
                if self.clock.now_ns() >= deadline_ns:
                    self._give_up(registration, limit_ns)
                    return
                self.clock.sleep(sleep_ns / NS_PER_S)
                sleep_ns = min(sleep_ns * 2, self.options.await_sleep_ns)
        except BaseException:
            self.cancel(registration)
            raise

    def cancel(self, registration: Registration[Any]) -> None:
        """Cancel a registration, and give back what the driver grants."""
        with self._lock:
            if self._conductor is not None:
                error = Closed(registration.what, message=f"{registration.what} was cancelled")
                self._conductor.cancel(registration, error)

    def _give_up(self, registration: Registration[Any], limit_ns: int) -> None:
        found = f"no answer from the driver within {limit_ns / NS_PER_S:g} s"
        error = DriverTimeout(registration.what, found=found, hint="is the driver overloaded or stopped?")
        with self._lock:
            if self._conductor is not None:
                self._conductor.cancel(registration, error)

    def check_outside_handlers(self, what: str) -> None:
        """Raises :class:`UsageError` if called in a handler: its wait would never end, as only this thread reads the
        driver's answers."""
        with self._calls() as conductor:
            if conductor.handlers.is_calling:
                hint = "call the async_ method in handlers, and wait elsewhere"
                raise UsageError(what, found="a handler must not wait for the driver", hint=hint)

    # Calls of the conductor

    @contextmanager
    def _calls(self) -> Iterator[ClientConductor]:
        """Lock the conductor. Raises the error that ended the client."""
        with self._lock:
            if self._conductor is None:
                raise closed_error("client", self._failure)
            yield self._conductor

    def ask(self, command: Callable[[ClientConductor], T]) -> T:
        """Call ``command`` with the conductor. Raises the error that ended the client."""
        with self._calls() as conductor:
            conductor.check_open()
            return command(conductor)

    @property
    def failure(self) -> EverlogError | None:
        """The error that ended the client; ``None`` while it runs, and if the program closed it."""
        conductor = self._conductor
        return self._failure if conductor is None else conductor.failure

    @property
    def is_ended(self) -> bool:
        """Whether the client has ended, for any reason."""
        conductor = self._conductor
        return conductor is None or conductor.is_ended

    @property
    def counters(self) -> CountersReader:
        """The driver's counters. Raises the error that ended the client."""
        return self.ask(lambda conductor: conductor.counters)

    def close_publication(self, registration_id: int, *, revoke: bool) -> None:
        """Pass on to the conductor; does nothing after the client was closed."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.commands.close_publication(registration_id, revoke=revoke)

    def close_subscription(self, registration_id: int) -> None:
        """Pass on to the conductor; does nothing after the client was closed."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.close_subscription(registration_id)

    def close_counter(self, correlation_id: int) -> None:
        """Pass on to the conductor; does nothing after the client was closed."""
        with self._lock:
            if self._conductor is not None:
                self._conductor.commands.close_counter(correlation_id)

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Pass on to the conductor. Raises the error that ended the client."""
        return self.ask(lambda conductor: conductor.commands.destination(kind, registration_id, channel))

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Pass on to the conductor. Raises the error that ended the client."""
        return self.ask(lambda conductor: conductor.commands.reject_image(image_correlation_id, position, reason))

    # The end

    def close(self) -> None:
        """End the client and drop all memory shared with the driver. A second call does nothing."""
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
        """End the client in a forked child process; the parent's keeps running."""
        # The thread that held the lock does not exist in this process.
        self._lock = threading.RLock()
        self._thread = None
        conductor, self._conductor = self._conductor, None
        # Neither does the heartbeat thread; stopping the pacemaker would wake the parent's.
        self._pacemaker = self._beating = None
        hint = "connect again in each process"
        self._failure = Closed("client", message="the client belongs to the parent process", hint=hint)
        if conductor is not None:
            conductor.abandon(self._failure)


_open = OpenObjects[ClientRunner](lambda runner: runner.abandon())


def _close_all() -> None:
    # So that the driver frees the clients' resources without waiting for the liveness timeout.
    for session in _open:
        session.close()


atexit.register(_close_all)
