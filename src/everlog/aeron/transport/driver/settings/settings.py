"""The settings of a media driver: every setting of Aeron's driver, with its property name, default and parser.
Source: Aeron, Configuration, MediaDriver.Context and CommonContext."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from dataclasses import Field, dataclass, field
from enum import Enum
from typing import Any

from everlog.aeron.transport.driver.settings import choices as choices
from everlog.aeron.transport.driver.settings.property_values import (
    INT32_MAX,
    parse_boolean,
    parse_duration_ns,
    parse_inferable,
    parse_int,
    parse_length,
    parse_long,
    parse_milliseconds,
    parse_port_range,
    parse_size,
    parse_text,
)
from everlog.runtime.idle import IdleStrategyName
from everlog.time_units import NS_PER_MS as MS
from everlog.time_units import NS_PER_S as SECOND
from everlog.time_units import NS_PER_US as US

KIB, MIB = 1 << 10, 1 << 20
RING_BUFFER_TRAILER, BROADCAST_TRAILER = 768, 128
SHARED_MEMORY = "/dev/shm"


class ThreadingMode(Enum):
    """Which threads run the conductor, sender and receiver: the caller's, one for all, one for the conductor and one
    for the network, or one for each."""

    INVOKER = "INVOKER"
    SHARED = "SHARED"
    SHARED_NETWORK = "SHARED_NETWORK"
    DEDICATED = "DEDICATED"

    @property
    def is_concurrent(self) -> bool:
        """Whether the conductor has a thread of its own."""
        return self in (ThreadingMode.SHARED_NETWORK, ThreadingMode.DEDICATED)


def parse_threading_mode(text: str, name: str) -> ThreadingMode:
    """Parse the name of a threading mode."""
    return ThreadingMode(choices.parse_threading_mode(text, name))


def default_dir() -> str:
    """The default folder of Aeron's drivers and clients: ``/dev/shm/aeron-<user>`` if ``/dev/shm`` exists, else
    ``aeron-<user>`` in the temporary folder."""
    base = SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else tempfile.gettempdir()
    return os.path.join(base, f"aeron-{getpass.getuser()}")


def _setting(default: Any, parse: Callable[[str, str], Any], *names: str) -> Any:
    """A field with its default and parser. ``names`` is its property, then synonyms, which take precedence."""
    return field(default=default, metadata=_metadata(parse, *names))


def _metadata(parse: Callable[[str, str], Any], *names: str) -> dict[str, Any]:
    return {"names": names, "parse": parse}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Names are those of Java's ``MediaDriver.Context`` in Python's spelling. Lengths are in bytes,
    values of ``_ns`` fields in nanoseconds."""

    dir: str = field(default_factory=default_dir, metadata=_metadata(parse_text, "aeron.dir"))
    dir_warn_if_exists: bool = _setting(False, parse_boolean, "aeron.dir.warn.if.exists")
    dir_delete_on_start: bool = _setting(False, parse_boolean, "aeron.dir.delete.on.start")
    dir_delete_on_shutdown: bool = _setting(False, parse_boolean, "aeron.dir.delete.on.shutdown")
    print_configuration_on_start: bool = _setting(False, parse_boolean, "aeron.print.configuration")
    driver_timeout_ms: int = _setting(10_000, parse_milliseconds, "aeron.driver.timeout")
    threading_mode: ThreadingMode = field(
        default=ThreadingMode.SHARED, metadata=_metadata(parse_threading_mode, "aeron.threading.mode")
    )
    termination_validator: choices.TerminationValidator = field(
        default="deny", metadata=_metadata(choices.parse_validator, "aeron.driver.termination.validator")
    )

    conductor_idle_strategy: IdleStrategyName = field(
        default="backoff", metadata=_metadata(choices.parse_idle, "aeron.conductor.idle.strategy")
    )
    sender_idle_strategy: IdleStrategyName = field(
        default="backoff", metadata=_metadata(choices.parse_idle, "aeron.sender.idle.strategy")
    )
    receiver_idle_strategy: IdleStrategyName = field(
        default="backoff", metadata=_metadata(choices.parse_idle, "aeron.receiver.idle.strategy")
    )
    shared_network_idle_strategy: IdleStrategyName = field(
        default="backoff", metadata=_metadata(choices.parse_idle, "aeron.sharednetwork.idle.strategy")
    )
    shared_idle_strategy: IdleStrategyName = field(
        default="backoff", metadata=_metadata(choices.parse_idle, "aeron.shared.idle.strategy")
    )
    conductor_cycle_threshold_ns: int = _setting(100 * MS, parse_duration_ns, "aeron.driver.conductor.cycle.threshold")
    sender_cycle_threshold_ns: int = _setting(100 * MS, parse_duration_ns, "aeron.driver.sender.cycle.threshold")
    receiver_cycle_threshold_ns: int = _setting(100 * MS, parse_duration_ns, "aeron.driver.receiver.cycle.threshold")

    file_page_size: int = _setting(4 * KIB, parse_length, "aeron.file.page.size")
    conductor_buffer_length: int = _setting(MIB + RING_BUFFER_TRAILER, parse_length, "aeron.conductor.buffer.length")
    to_clients_buffer_length: int = _setting(MIB + BROADCAST_TRAILER, parse_length, "aeron.clients.buffer.length")
    counter_values_buffer_length: int = _setting(8 * MIB, parse_length, "aeron.counters.buffer.length")
    error_buffer_length: int = _setting(4 * MIB, parse_length, "aeron.error.buffer.length")
    loss_report_buffer_length: int = _setting(MIB, parse_length, "aeron.loss.report.buffer.length")
    perform_storage_checks: bool = _setting(True, parse_boolean, "aeron.perform.storage.checks")
    low_storage_warning_threshold: int = _setting(160 * MIB, parse_size, "aeron.low.file.store.warning.threshold")

    timer_interval_ns: int = _setting(SECOND, parse_duration_ns, "aeron.timer.interval")
    client_liveness_timeout_ns: int = _setting(10 * SECOND, parse_duration_ns, "aeron.client.liveness.timeout")
    counter_free_to_reuse_timeout_ns: int = _setting(SECOND, parse_duration_ns, "aeron.counters.free.to.reuse.timeout")
    resource_free_limit: int = _setting(10, parse_int, "aeron.driver.resource.free.limit")
    stream_session_limit: int = _setting(INT32_MAX, parse_int, "aeron.driver.stream.session.limit")

    publication_term_buffer_length: int = _setting(16 * MIB, parse_length, "aeron.term.buffer.length")
    ipc_term_buffer_length: int = _setting(64 * MIB, parse_length, "aeron.ipc.term.buffer.length")
    # False, as in Aeron's C driver: if there is no room for a page of a sparse file, writing it kills the writer
    # (SIGBUS).
    term_buffer_sparse_file: bool = _setting(False, parse_boolean, "aeron.term.buffer.sparse.file")
    publication_term_window_length: int = _setting(0, parse_length, "aeron.publication.term.window.length")
    ipc_publication_term_window_length: int = _setting(0, parse_length, "aeron.ipc.publication.term.window.length")
    mtu_length: int = _setting(1408, parse_length, "aeron.mtu.length")
    ipc_mtu_length: int = _setting(1408, parse_length, "aeron.ipc.mtu.length")
    publication_unblock_timeout_ns: int = _setting(15 * SECOND, parse_duration_ns, "aeron.publication.unblock.timeout")
    publication_connection_timeout_ns: int = _setting(
        5 * SECOND, parse_duration_ns, "aeron.publication.connection.timeout"
    )
    publication_linger_timeout_ns: int = _setting(5 * SECOND, parse_duration_ns, "aeron.publication.linger.timeout")
    publication_reserved_session_id_low: int = _setting(-1, parse_int, "aeron.publication.reserved.session.id.low")
    publication_reserved_session_id_high: int = _setting(1000, parse_int, "aeron.publication.reserved.session.id.high")
    spies_simulate_connection: bool = _setting(False, parse_boolean, "aeron.spies.simulate.connection")

    image_liveness_timeout_ns: int = _setting(10 * SECOND, parse_duration_ns, "aeron.image.liveness.timeout")
    initial_window_length: int = _setting(128 * KIB, parse_length, "aeron.rcv.initial.window.length")
    status_message_timeout_ns: int = _setting(200 * MS, parse_duration_ns, "aeron.rcv.status.message.timeout")
    send_to_status_message_poll_ratio: int = _setting(6, parse_int, "aeron.send.to.status.poll.ratio")
    tether_subscriptions: bool = _setting(True, parse_boolean, "aeron.tether.subscriptions")
    reliable_stream: bool = _setting(True, parse_boolean, "aeron.reliable.stream")
    rejoin_stream: bool = _setting(True, parse_boolean, "aeron.rejoin.stream")
    untethered_window_limit_timeout_ns: int = _setting(
        5 * SECOND, parse_duration_ns, "aeron.untethered.window.limit.timeout"
    )
    untethered_linger_timeout_ns: int | None = _setting(None, parse_duration_ns, "aeron.untethered.linger.timeout")
    untethered_resting_timeout_ns: int = _setting(10 * SECOND, parse_duration_ns, "aeron.untethered.resting.timeout")
    receiver_group_consideration: bool | None = _setting(None, parse_inferable, "aeron.receiver.group.consideration")
    receiver_group_tag: int | None = _setting(None, parse_long, "aeron.receiver.group.tag")
    congestion_control: choices.CongestionControlName = field(
        default="default", metadata=_metadata(choices.parse_congestion, "aeron.CongestionControl.supplier")
    )
    cubic_measure_rtt: bool = _setting(False, parse_boolean, "aeron.CubicCongestionControl.measureRtt")
    cubic_initial_rtt_ns: int = _setting(100 * US, parse_duration_ns, "aeron.CubicCongestionControl.initialRtt")
    cubic_tcp_mode: bool = _setting(False, parse_boolean, "aeron.CubicCongestionControl.tcpMode")

    nak_multicast_group_size: int = _setting(10, parse_int, "aeron.nak.multicast.group.size")
    nak_multicast_max_backoff_ns: int = _setting(10 * MS, parse_duration_ns, "aeron.nak.multicast.max.backoff")
    nak_unicast_delay_ns: int = _setting(1 * US, parse_duration_ns, "aeron.nak.unicast.delay")
    nak_unicast_retry_delay_ratio: int = _setting(100, parse_size, "aeron.nak.unicast.retry.delay.ratio")
    retransmit_unicast_delay_ns: int = _setting(0, parse_duration_ns, "aeron.retransmit.unicast.delay")
    retransmit_unicast_linger_ns: int = _setting(10 * MS, parse_duration_ns, "aeron.retransmit.unicast.linger")
    max_resend: int = _setting(16, parse_int, "aeron.max.resend")

    unicast_flow_control: choices.UnicastFlowControl = field(
        default="unicast",
        metadata=_metadata(
            choices.parse_unicast_flow, "aeron.unicast.FlowControl.supplier", "aeron.unicast.flow.control.strategy"
        ),
    )
    multicast_flow_control: choices.MulticastFlowControl = field(
        default="max",
        metadata=_metadata(
            choices.parse_multicast_flow,
            "aeron.multicast.FlowControl.supplier",
            "aeron.multicast.flow.control.strategy",
        ),
    )
    flow_control_group_tag: int = _setting(-1, parse_long, "aeron.flow.control.group.tag")
    flow_control_group_min_size: int = _setting(0, parse_int, "aeron.flow.control.group.min.size")
    flow_control_receiver_timeout_ns: int = _setting(
        5 * SECOND, parse_duration_ns, "aeron.flow.control.receiver.timeout"
    )
    unicast_flow_control_rrwm: int = _setting(16, parse_int, "aeron.unicast.flow.control.rrwm")
    multicast_flow_control_rrwm: int = _setting(4, parse_int, "aeron.multicast.flow.control.rrwm")

    socket_rcvbuf_length: int = _setting(128 * KIB, parse_length, "aeron.socket.so_rcvbuf")
    socket_sndbuf_length: int = _setting(0, parse_length, "aeron.socket.so_sndbuf")
    socket_multicast_ttl: int = _setting(0, parse_int, "aeron.socket.multicast.ttl")
    sender_wildcard_port_range: tuple[int, int] | None = _setting(
        None, parse_port_range, "aeron.sender.wildcard.port.range"
    )
    receiver_wildcard_port_range: tuple[int, int] | None = _setting(
        None, parse_port_range, "aeron.receiver.wildcard.port.range"
    )
    resolver_name: str | None = _setting(None, parse_text, "aeron.driver.resolver.name")
    resolver_interface: str | None = _setting(None, parse_text, "aeron.driver.resolver.interface")
    resolver_bootstrap_neighbor: str | None = _setting(None, parse_text, "aeron.driver.resolver.bootstrap.neighbor")
    resolver_neighbor_timeout_ns: int = _setting(
        10 * SECOND, parse_duration_ns, "aeron.driver.resolver.neighbor.timeout"
    )
    resolver_self_resolution_interval_ns: int = _setting(
        SECOND, parse_duration_ns, "aeron.driver.resolver.self.resolution.interval"
    )
    resolver_neighbor_resolution_interval_ns: int = _setting(
        2 * SECOND, parse_duration_ns, "aeron.driver.resolver.neighbor.resolution.interval"
    )
    resolver_bootstrap_neighbor_resolution_interval_ns: int = _setting(
        10 * SECOND, parse_duration_ns, "aeron.driver.resolver.bootstrap.neighbor.resolution.interval"
    )
    re_resolution_check_interval_ns: int = _setting(
        SECOND, parse_duration_ns, "aeron.driver.reresolution.check.interval"
    )
    name_resolver_threshold_ns: int = _setting(5 * SECOND, parse_duration_ns, "aeron.name.resolver.threshold")


def property_of(setting: Field[Any]) -> str:
    """The Aeron property of a field of :class:`Settings`."""
    name: str = setting.metadata["names"][0]
    return name


def text_of(value: object) -> str:
    """Format a value as a property file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value)
    return value.value if isinstance(value, ThreadingMode) else str(value)
