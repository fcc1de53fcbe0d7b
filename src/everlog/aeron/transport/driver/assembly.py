"""A driver put together: its agents over the memory that clients share, without threads, clocks and sockets of their
own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from everlog.aeron.transport.broadcast import BroadcastTransmitter
from everlog.aeron.transport.cnc_memory import CncMemory
from everlog.aeron.transport.counters_memory import Counters
from everlog.aeron.transport.driver.client_proxy import ClientProxy
from everlog.aeron.transport.driver.conductor import DriverConductor
from everlog.aeron.transport.driver.configuration import Configuration
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.errors_seen import ErrorsSeen
from everlog.aeron.transport.driver.log_factory import FileLogFactory, LogFactory
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.driver.tasks import InlineTasks, Tasks, ThreadTasks
from everlog.aeron.transport.error_log_writer import DistinctErrorLog
from everlog.aeron.transport.layouts import CncMetaData
from everlog.aeron.transport.ring_buffer import ManyToOneRingBuffer

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a driver is put into. ``log_factory`` and ``tasks``: files in the configuration's folder and a thread,
    unless a simulation brings its own. ``seed``: of session ids and term ids; ``None``: the system's."""

    log_factory: LogFactory | None = None
    tasks: Tasks | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class DriverParts:
    """A driver's agents, and what its shell needs."""

    context: DriverContext
    conductor: DriverConductor

    @property
    def system_counters(self) -> SystemCounters:
        """The driver's own."""
        return self.context.system_counters

    @property
    def errors(self) -> ErrorsSeen:
        """Where its errors go."""
        return self.context.errors

    def close(self) -> None:
        """What is left when all agents are closed."""


def assemble(
    configuration: Configuration,
    *,
    cnc: CncMemory,
    now_ns: int,
    now_ms: int,
    on_terminate: Callable[[], None] | None = None,
    surroundings: Surroundings = Surroundings(),
) -> DriverParts:
    """The agents of a driver whose ``cnc.dat`` is new. ``on_terminate``: a client may end the driver, and does."""
    context = driver_context(configuration, cnc, surroundings, now_ns, now_ms)
    conductor = DriverConductor(context, on_terminate=on_terminate)
    return DriverParts(context, conductor)


def driver_context(
    configuration: Configuration, cnc: CncMemory, surroundings: Surroundings, now_ns: int, now_ms: int
) -> DriverContext:
    """What agents share, over new memory."""
    reuse_timeout_ms = configuration.counter_free_to_reuse_timeout_ns // NS_PER_MS
    counters = Counters(cnc.counters_metadata, cnc.counters_values, reuse_timeout_ms)
    system = SystemCounters(counters, configuration, now_ms)
    errors = ErrorsSeen(DistinctErrorLog(cnc.error_log), system[SystemCounter.ERRORS], now_ms)
    mapped = system[SystemCounter.BYTES_CURRENTLY_MAPPED]
    mapped.add_release(_length(cnc))
    log_factory = surroundings.log_factory or FileLogFactory(
        Path(configuration.dir),
        configuration.file_page_size,
        configuration.low_storage_warning_threshold,
        mapped,
        errors.record,
    )
    tasks = surroundings.tasks or (ThreadTasks() if surroundings.log_factory is None else InlineTasks())
    generator = random.Random(surroundings.seed)
    return DriverContext(
        configuration=configuration,
        to_driver=ManyToOneRingBuffer(cnc.to_driver),
        client_proxy=ClientProxy(BroadcastTransmitter(cnc.to_clients)),
        counters=counters,
        system_counters=system,
        errors=errors,
        log_factory=log_factory,
        tasks=tasks,
        random=generator,
        now_ns=now_ns,
        now_ms=now_ms,
    )


def _length(cnc: CncMemory) -> int:
    parts = cnc.to_driver, cnc.to_clients, cnc.counters_metadata, cnc.counters_values, cnc.error_log
    return CncMetaData.size + sum(len(part) for part in parts)
