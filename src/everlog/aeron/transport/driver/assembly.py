"""A driver put together: its agents over the memory that clients share, without threads, clocks and sockets of their
own."""

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
    """What a driver is put into; a simulation brings its own of all. ``log_factory`` and ``tasks``: files in the
    configuration's folder, and a thread, unless given. ``seed``: of session ids and term ids; ``None``: the
    system's. ``clock_ns`` (monotonic) takes the time of the resolver, ``epoch_ns`` is of time stamps in messages."""

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
    """A driver's agents, and what its shell needs. They are closed one by one, the conductor last."""

    context: DriverContext
    conductor: DriverConductor
    sender: Sender
    receiver: Receiver

    @property
    def system_counters(self) -> SystemCounters:
        """The driver's own."""
        return self.context.system_counters

    @property
    def errors(self) -> DistinctErrorRecorder:
        """Where its errors go."""
        return self.context.errors

    def close(self) -> None:
        """Nothing is left when all agents are closed."""


def assemble(
    configuration: Configuration,
    *,
    cnc: CncMemory,
    network: Network,
    now_ns: int,
    now_ms: int,
    loss_report: LossReport | None = None,
    on_terminate: Callable[[], None] | None = None,
    surroundings: Environment | None = None,
) -> DriverParts:
    """The agents of a driver whose ``cnc.dat`` is new. ``on_terminate``: a client may end the driver, and does."""
    surroundings = surroundings or Environment()
    context = driver_context(configuration, cnc, surroundings, now_ns, now_ms)
    caller = None if configuration.threading_mode.is_concurrent else context
    sender = _sender(context, network)
    receiver = _receiver(context, network, surroundings)

    def network_side(context: DriverContext, streams: Streams) -> NetworkConductor:
        media = media_context(context, network, surroundings.epoch_ns)
        neighbors = None
        if configuration.resolver_name is not None:
            neighbors = DriverNameResolver(context, media, surroundings.resolver)
        parts = NetworkContext(
            context=context,
            streams=streams,
            media=media,
            channels=_channels(context, surroundings, neighbors or surroundings.resolver),
            neighbors=neighbors,
            sender=SenderProxy(sender, caller),
            receiver=ReceiverProxy(receiver, caller),
            new_dispatcher=receiver.new_dispatcher,
            loss_report=loss_report,
        )
        return NetworkConductor(parts)

    return DriverParts(context, DriverConductor(context, network_side, on_terminate), sender, receiver)


def driver_context(
    configuration: Configuration, cnc: CncMemory, surroundings: Environment, now_ns: int, now_ms: int
) -> DriverContext:
    """What agents share, over new memory."""
    reuse_timeout_ms = configuration.counter_free_to_reuse_timeout_ns // NS_PER_MS
    counters = Counters(cnc.counters_metadata, cnc.counters_values, reuse_timeout_ms)
    system = SystemCounters(counters, configuration, now_ms)
    errors = DistinctErrorRecorder(DistinctErrorLog(cnc.error_log), system[SystemCounter.ERRORS], now_ms)
    mapped = system[SystemCounter.BYTES_CURRENTLY_MAPPED]
    mapped.add_release(_length(cnc, configuration.file_page_size) + configuration.loss_report_buffer_length)
    log_factory = surroundings.log_factory or FileLogFactory(configuration, mapped, errors.record)
    to_driver = ManyToOneRingBuffer(cnc.to_driver)
    to_driver.next_correlation_id()  # 0 is nobody's
    tasks = surroundings.tasks or (ThreadTasks() if surroundings.log_factory is None else InlineTasks())
    return DriverContext(
        configuration=configuration,
        to_driver=to_driver,
        client_proxy=ClientProxy(BroadcastTransmitter(cnc.to_clients)),
        counters=counters,
        system_counters=system,
        errors=errors,
        log_factory=log_factory,
        tasks=tasks,
        random=random.Random(surroundings.seed),
        now_ns=now_ns,
        now_ms=now_ms,
        system_sockets=surroundings.sockets,
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
    seams = SenderDependencies(network.selector(), context.conductor_proxy, context.errors, cycle_time)
    return Sender(settings, seams, system, context.now_ns)


def _receiver(context: DriverContext, network: Network, surroundings: Environment) -> Receiver:
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
    seams = ReceiverDependencies(selector, context.conductor_proxy, context.errors, cycle_time, surroundings.epoch_ns)
    return Receiver(settings, seams, ReceiverCounters.of(system), context.now_ns)


def _channels(context: DriverContext, surroundings: Environment, names: NameResolver) -> Channels:
    system, threshold_ns = context.system_counters, context.configuration.name_resolver_threshold_ns
    longest = system[SystemCounter.NAME_RESOLVER_MAX_TIME]
    exceeded = system[SystemCounter.NAME_RESOLVER_TIME_THRESHOLD_EXCEEDED]
    resolver = TimedResolver(names, surroundings.clock_ns, (longest, exceeded), threshold_ns)
    return Channels(context.tasks, resolver, surroundings.interfaces)


def _length(cnc: CncMemory, page_size: int) -> int:
    """Of its file."""
    parts = cnc.to_driver, cnc.to_clients, cnc.counters_metadata, cnc.counters_values, cnc.error_log
    return align(CncMetaData.size + sum(len(part) for part in parts), page_size)
