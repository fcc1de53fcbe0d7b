"""State that the agents of a running driver share."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.driver.commands.conductor_proxy import ConductorProxy
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths
from everlog.aeron.transport.driver.distinct_errors import DistinctErrorRecorder
from everlog.aeron.transport.driver.log_factory import LogFactory
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import SystemCounters
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.runtime.tasks import Tasks


@dataclass(slots=True, kw_only=True)
class DriverContext:
    """Shared state of a driver's agents. ``now_ns`` (monotonic) and ``now_ms`` (since 1970) are the times of the
    conductor's last cycle."""

    configuration: Configuration
    to_driver: ManyToOneRingBuffer
    client_proxy: ClientProxy
    counters: Counters
    system_counters: SystemCounters
    errors: DistinctErrorRecorder
    log_factory: LogFactory
    tasks: Tasks
    random: random.Random
    now_ns: int
    now_ms: int
    system_sockets: SocketLengths = field(default_factory=SocketLengths)
    """The system's default and greatest socket buffer lengths."""
    conductor_proxy: ConductorProxy = field(default_factory=ConductorProxy)
