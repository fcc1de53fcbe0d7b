"""What an image is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.receiver.congestion.control import CongestionControl
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.feedback_delay import FeedbackDelayGenerator
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.driver.untethered import UntetheredLink, UntetheredTimeouts
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.kernel.udp import SocketAddress
from everlog.time_units import NS_PER_MS, NS_PER_S


class Link(UntetheredLink, Protocol):
    """A client's subscription."""

    @property
    def is_tether(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ImageCounters:
    """An image's own: how far it was heard of, up to where it is there, NAKs sent."""

    receiver_hwm: AtomicCounter
    receiver_position: AtomicCounter
    receiver_naks_sent: AtomicCounter

    def close(self) -> None:
        """Free them."""
        for counter in (self.receiver_hwm, self.receiver_position, self.receiver_naks_sent):
            counter.close()


@dataclass(frozen=True, slots=True)
class ReceiverCounters:
    """The driver's, that count what the receiver does."""

    bytes_received: AtomicCounter
    nak_messages_sent: AtomicCounter
    status_messages_sent: AtomicCounter
    heartbeats_received: AtomicCounter
    flow_control_under_runs: AtomicCounter
    flow_control_over_runs: AtomicCounter
    invalid_packets: AtomicCounter
    loss_gap_fills: AtomicCounter
    possible_ttl_asymmetry: AtomicCounter
    publication_images_revoked: AtomicCounter
    resolution_changes: AtomicCounter

    @staticmethod
    def of(counters: SystemCounters) -> ReceiverCounters:
        """Of a driver's system counters."""
        return ReceiverCounters(**{name: counters[SystemCounter[name.upper()]] for name in ReceiverCounters.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParameters:
    """``term_id`` and ``term_offset``: where the stream is as its setup says, and the image begins. ``flags``: of the
    setup. ``subscriptions``: who reads it from the start. ``timestamp_offset``: of a message's payload, where the time
    of reception goes."""

    correlation_id: int
    session_id: int
    stream_id: int
    initial_term_id: int
    active_term_id: int
    term_offset: int
    flags: int = 0
    is_reliable: bool = True
    channel_endpoint: ReceiveEndpoint
    transport_index: int = 0
    control_address: SocketAddress
    source_identity: str
    log: DriverLog
    subscriptions: Sequence[tuple[Link, AtomicCounter]]
    counters: ImageCounters
    system: ReceiverCounters
    congestion_control: CongestionControl
    delay: FeedbackDelayGenerator
    loss_report: LossReport | None = None
    now_ns: int
    image_liveness_timeout_ns: int = 10 * NS_PER_S
    status_message_timeout_ns: int = 200 * NS_PER_MS
    untethered: UntetheredTimeouts = field(default_factory=UntetheredTimeouts)
    timestamp_offset: int | None = None


class ImageEvents(Protocol):
    """What an image tells the conductor."""

    def transition_to_linger(self, image: Any) -> None:
        """Its subscribers lose it."""

    def cleanup_image(self, image: Any) -> None:
        """It is to be unlinked."""

    def try_close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Perhaps nobody uses it any more."""

    def notify_unavailable_image_link(self, resource_id: int, link: Any) -> None:
        """A subscriber was too slow and loses it."""

    def notify_available_image_link(
        self,
        resource_id: int,
        session_id: int,
        link: Any,
        position_counter_id: int,
        join_position: int,
        log_file_name: str,
        source_identity: str,
    ) -> None:
        """A subscriber gets it again."""
