"""A media driver in threads of this process: its folder, files, agents and threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from everlog.aeron.transport.driver.assembly import DriverParts, Environment, assemble
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths
from everlog.aeron.transport.driver.folder import DriverFolder
from everlog.aeron.transport.driver.running_driver import RunningDriver, Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.driver.socket_lengths import check_socket_lengths, system_socket_lengths
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME
from everlog.aeron.transport.media.network import Network, SystemNetwork
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.aeron.transport.memory.shared_files import create_file
from everlog.runtime.agent_runner import Agent, AgentRunner
from everlog.runtime.idle import IdleStrategyName, idle_strategy
from everlog.time_units import NS_PER_MS

SHARED_THREAD, NETWORK_THREAD = "aeron-md-shd", "aeron-md-net"
CONDUCTOR_THREAD, SENDER_THREAD, RECEIVER_THREAD = "aeron-md-cnd", "aeron-md-snd", "aeron-md-rcv"


class EmbeddedDriver(RunningDriver):
    """Runs the agents in threads as ``aeron.threading.mode`` says. With ``INVOKER`` the caller runs them by
    :meth:`do_work`. ``network`` replaces the system's. ``on_end`` is called when a client terminates the driver; the
    caller must then close it."""

    def __init__(
        self,
        configuration: Configuration,
        warn: Warn,
        *,
        network: Network | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.dir, self.pid = configuration.dir, os.getpid()
        self.configuration = configuration
        self._ended = threading.Event()
        self._on_end = on_end
        with ExitStack() as opened:
            sockets = system_socket_lengths()
            check_socket_lengths(configuration, sockets, warn)
            folder = DriverFolder(configuration, warn)
            opened.callback(folder.close)
            self._parts = self._assemble(configuration, network or SystemNetwork(), sockets, opened)
            self._runners = self._runners_of(configuration)
            self._is_started = configuration.threading_mode is not ThreadingMode.INVOKER
            if self._is_started:
                for runner in self._runners:
                    runner.start()
            self._exits = opened.pop_all()

    def _assemble(
        self, configuration: Configuration, network: Network, sockets: SocketLengths, opened: ExitStack
    ) -> DriverParts:
        """Create the files and the agents; clients may connect from here on."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // NS_PER_MS
        folder = Path(configuration.dir)
        cnc = CncMemory.create(folder, cnc_settings(configuration), now_ms)
        opened.callback(cnc.close)
        losses = create_file(folder / LOSS_REPORT_NAME, configuration.loss_report_buffer_length)
        parts = assemble(
            configuration,
            cnc=cnc,
            network=network,
            now_ns=now_ns,
            now_ms=now_ms,
            loss_report=LossReport(losses),
            on_terminate=self._end,
            environment=Environment(sockets=sockets),
        )
        opened.callback(parts.close)
        to_driver = parts.context.to_driver
        to_driver.next_correlation_id()  # clients' ids start at 1
        to_driver.consumer_heartbeat = now_ms
        cnc.signal_ready()
        return parts

    def _runners_of(self, configuration: Configuration) -> list[AgentRunner]:
        """The threads and their agents. The order within a shared thread lets one cycle see what subscribers have read,
        report it to the publisher, and use the answer. The conductor is closed last."""
        conductor, sender, receiver = self._parts.conductor, self._parts.sender, self._parts.receiver
        if not configuration.threading_mode.is_concurrent:
            return [self._runner(SHARED_THREAD, (conductor, receiver, sender), configuration.shared_idle_strategy)]
        conductor_runner = self._runner(CONDUCTOR_THREAD, (conductor,), configuration.conductor_idle_strategy)
        if configuration.threading_mode is ThreadingMode.SHARED_NETWORK:
            strategy = configuration.shared_network_idle_strategy
            return [self._runner(NETWORK_THREAD, (receiver, sender), strategy), conductor_runner]
        return [
            self._runner(SENDER_THREAD, (sender,), configuration.sender_idle_strategy),
            self._runner(RECEIVER_THREAD, (receiver,), configuration.receiver_idle_strategy),
            conductor_runner,
        ]

    def _runner(self, name: str, agents: Sequence[Agent], strategy: IdleStrategyName) -> AgentRunner:
        controlled_by = self._parts.system_counters[SystemCounter.CONTROLLABLE_IDLE_STRATEGY]
        return AgentRunner(name, agents, idle_strategy(strategy, controlled_by), self._parts.errors.record)

    def do_work(self) -> int:
        """Run one cycle of all agents, in the ``INVOKER`` mode. Returns the amount of work done."""
        return sum(runner.do_work() for runner in self._runners)

    @property
    def is_running(self) -> bool:
        """Whether the driver was neither closed nor terminated by a client."""
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has stopped. Returns ``False`` if it still runs after ``timeout_s`` seconds."""
        return self._ended.wait(timeout_s)

    def _end(self) -> None:
        self._ended.set()
        if self._on_end is not None:
            self._on_end()

    def close(self) -> None:
        """Stop the driver, and delete its folder if the configuration says so. Idempotent."""
        runners, self._runners = self._runners, []
        for runner in runners:
            if self._is_started:
                runner.close()
            else:
                runner.close_agents()
        self._ended.set()
        self._exits.close()


def cnc_settings(configuration: Configuration) -> CncSettings:
    """The settings of ``cnc.dat`` that a configuration gives."""
    return CncSettings(
        to_driver_buffer_length=configuration.conductor_buffer_length,
        to_clients_buffer_length=configuration.to_clients_buffer_length,
        counters_values_buffer_length=configuration.counter_values_buffer_length,
        error_log_buffer_length=configuration.error_buffer_length,
        client_liveness_timeout_ns=configuration.client_liveness_timeout_ns,
        file_page_size=configuration.file_page_size,
    )
