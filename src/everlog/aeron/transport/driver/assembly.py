"""Assembles a driver's agents over the memory shared with clients. The agents get their threads, clocks and sockets
from outside."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from everlog.aeron.frames.constants import align
from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.driver.commands.conductor_proxy import ConductorProxy
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths
from everlog.aeron.transport.driver.conductor.conductor import DriverConductor
from everlog.aeron.transport.driver.conductor.streams import Streams
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.distinct_errors import DistinctErrorRecorder
from everlog.aeron.transport.driver.log_factory import FileLogFactory, LogFactory
from everlog.aeron.transport.driver.media_context import media_context
from everlog.aeron.transport.driver.name_resolver import DriverNameResolver
from everlog.aeron.transport.driver.network.channels import Channels, TimedResolver
from everlog.aeron.transport.driver.network.conductor import NetworkConductor
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.receiver.image_parameters import ReceiverCounters
from everlog.aeron.transport.driver.receiver.proxy import ReceiverProxy
from everlog.aeron.transport.driver.receiver.receiver import (
    PolledTransport,
    Receiver,
    ReceiverDependencies,
    ReceiverSettings,
)
from everlog.aeron.transport.driver.sender.sender import Sender, SenderDependencies, SenderProxy, SenderSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import CycleTime, SystemCounter, SystemCounters
from everlog.aeron.transport.format.layouts import CncMetaData
from everlog.aeron.transport.media.interfaces import Interfaces, system_interfaces
from everlog.aeron.transport.media.name_resolver import DEFAULT_RESOLVER, NameResolver
from everlog.aeron.transport.media.network import Network, SocketSelector
from everlog.aeron.transport.memory.broadcast import BroadcastTransmitter
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.runtime.tasks import InlineTasks, Tasks, ThreadTasks
from everlog.time_units import NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A driver's dependencies on the outside; simulations replace them all. ``log_factory`` defaults to files in the
    configuration's folder, ``tasks`` to a thread. ``seed`` determines session ids and term ids; ``None`` takes the
    system's random numbers. ``clock_ns`` (monotonic) times the name resolver; ``epoch_ns`` gives timestamps in
    messages."""

    log_factory: LogFactory | None = None
    tasks: Tasks | None = None
    seed: int | None = None
    sockets: SocketLengths = field(default_factory=SocketLengths)
    resolver: NameResolver = DEFAULT_RESOLVER
    interfaces: Interfaces = system_interfaces
    clock_ns: Callable[[], int] = time.monotonic_ns
    epoch_ns: Callable[[], int] = time.time_ns


@dataclass(frozen=True, slots=True)
class DriverParts:
    """A driver's agents and their shared context. The agents are closed one by one, the conductor last."""

    context: DriverContext
    conductor: DriverConductor
    sender: Sender
    receiver: Receiver

    @property
    def system_counters(self) -> SystemCounters:
        """The driver's system counters."""
        return self.context.system_counters

    @property
    def errors(self) -> DistinctErrorRecorder:
        """The recorder of the driver's errors."""
        return self.context.errors

    def close(self) -> None:
        """Do nothing: closing the agents frees everything."""


def assemble(
    configuration: Configuration,
    *,
    cnc: CncMemory,
    network: Network,
    now_ns: int,
    now_ms: int,
    loss_report: LossReport | None = None,
    on_terminate: Callable[[], None] | None = None,
    environment: Environment | None = None,
) -> DriverParts:
    """Create the agents of a driver over a new ``cnc.dat``. ``on_terminate`` is called when a client terminates the
    driver and may do so."""
    environment = environment or Environment()
    context = driver_context(configuration, cnc, environment, now_ns, now_ms)
    caller = None if configuration.threading_mode.is_concurrent else context
    sender = _sender(context, network)
    receiver = _receiver(context, network, environment)

    def network_side(context: DriverContext, streams: Streams) -> NetworkConductor:
        media = media_context(context, network, environment.epoch_ns)
        neighbors = None
        if configuration.resolver_name is not None:
            neighbors = DriverNameResolver(context, media, environment.resolver)
        parts = NetworkContext(
            context=context,
            streams=streams,
            media=media,
            channels=_channels(context, environment, neighbors or environment.resolver),
            neighbors=neighbors,
            sender=SenderProxy(sender, caller),
            receiver=ReceiverProxy(receiver, caller),
            new_dispatcher=receiver.new_dispatcher,
            loss_report=loss_report,
        )
        return NetworkConductor(parts)

    return DriverParts(context, DriverConductor(context, network_side, on_terminate), sender, receiver)


def driver_context(
    configuration: Configuration, cnc: CncMemory, environment: Environment, now_ns: int, now_ms: int
) -> DriverContext:
    """Create the agents' shared context over a new ``cnc.dat``."""
    reuse_timeout_ms = configuration.counter_free_to_reuse_timeout_ns // NS_PER_MS
    counters = Counters(cnc.counters_metadata, cnc.counters_values, reuse_timeout_ms)
    system = SystemCounters(counters, configuration, now_ms)
    errors = DistinctErrorRecorder(DistinctErrorLog(cnc.error_log), system[SystemCounter.ERRORS], now_ms)
    mapped = system[SystemCounter.BYTES_CURRENTLY_MAPPED]
    mapped.add_release(_length(cnc, configuration.file_page_size) + configuration.loss_report_buffer_length)
    log_factory = environment.log_factory or FileLogFactory(configuration, mapped, errors.record)
    to_driver = ManyToOneRingBuffer(cnc.to_driver)
    to_driver.next_correlation_id()  # ids start at 1
    tasks = environment.tasks or (ThreadTasks() if environment.log_factory is None else InlineTasks())
    return DriverContext(
        configuration=configuration,
        to_driver=to_driver,
        client_proxy=ClientProxy(BroadcastTransmitter(cnc.to_clients)),
        counters=counters,
        system_counters=system,
        errors=errors,
        log_factory=log_factory,
        tasks=tasks,
        random=random.Random(environment.seed),
        now_ns=now_ns,
        now_ms=now_ms,
        system_sockets=environment.sockets,
        conductor_proxy=ConductorProxy(is_direct=not configuration.threading_mode.is_concurrent),
    )


def _sender(context: DriverContext, network: Network) -> Sender:
    configuration, system = context.configuration, context.system_counters
    settings = SenderSettings(
        status_message_timeout_ns=configuration.status_message_timeout_ns,
        status_message_poll_ratio=configuration.send_to_status_message_poll_ratio,
        re_resolution_interval_ns=configuration.re_resolution_check_interval_ns,
    )
    cycle_time = CycleTime(
        system[SystemCounter.SENDER_MAX_CYCLE_TIME],
        system[SystemCounter.SENDER_CYCLE_TIME_THRESHOLD_EXCEEDED],
        configuration.sender_cycle_threshold_ns,
    )
    dependencies = SenderDependencies(network.selector(), context.conductor_proxy, context.errors, cycle_time)
    return Sender(settings, dependencies, system, context.now_ns)


def _receiver(context: DriverContext, network: Network, environment: Environment) -> Receiver:
    configuration, system = context.configuration, context.system_counters
    settings = ReceiverSettings(
        re_resolution_interval_ns=configuration.re_resolution_check_interval_ns,
        stream_session_limit=configuration.stream_session_limit,
    )
    cycle_time = CycleTime(
        system[SystemCounter.RECEIVER_MAX_CYCLE_TIME],
        system[SystemCounter.RECEIVER_CYCLE_TIME_THRESHOLD_EXCEEDED],
        configuration.receiver_cycle_threshold_ns,
    )
    selector: SocketSelector[PolledTransport] = network.selector()
    dependencies = ReceiverDependencies(
        selector, context.conductor_proxy, context.errors, cycle_time, environment.epoch_ns
    )
    return Receiver(settings, dependencies, ReceiverCounters.of(system), context.now_ns)


def _channels(context: DriverContext, environment: Environment, names: NameResolver) -> Channels:
    system, threshold_ns = context.system_counters, context.configuration.name_resolver_threshold_ns
    longest = system[SystemCounter.NAME_RESOLVER_MAX_TIME]
    exceeded = system[SystemCounter.NAME_RESOLVER_TIME_THRESHOLD_EXCEEDED]
    resolver = TimedResolver(names, environment.clock_ns, (longest, exceeded), threshold_ns)
    return Channels(context.tasks, resolver, environment.interfaces)


def _length(cnc: CncMemory, page_size: int) -> int:
    """The length of the ``cnc.dat`` file, in bytes."""
    parts = cnc.to_driver, cnc.to_clients, cnc.counters_metadata, cnc.counters_values, cnc.error_log
    return align(CncMetaData.size + sum(len(part) for part in parts), page_size)
