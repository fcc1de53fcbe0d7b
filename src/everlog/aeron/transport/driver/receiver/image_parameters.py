"""The parts of an image, and its callbacks to the conductor."""

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
    """An image's counters: highest received position, position up to which it is complete, NAKs sent."""

    receiver_hwm: AtomicCounter
    receiver_position: AtomicCounter
    receiver_naks_sent: AtomicCounter

    def close(self) -> None:
        """Free all counters."""
        for counter in (self.receiver_hwm, self.receiver_position, self.receiver_naks_sent):
            counter.close()


@dataclass(frozen=True, slots=True)
class ReceiverCounters:
    """The driver's system counters that the receiver updates."""

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
        """Select them from a driver's system counters."""
        return ReceiverCounters(**{name: counters[SystemCounter[name.upper()]] for name in ReceiverCounters.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParameters:
    """The parts of an image. ``active_term_id`` and ``term_offset`` are the stream's position in its setup, where the
    image starts; ``flags`` are the setup's. ``subscriptions`` read the image from its start. ``timestamp_offset`` is
    the place in a message's payload for the reception time."""

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
    """An image's callbacks to the conductor."""

    def transition_to_linger(self, image: Any) -> None:
        """Notify subscribers that the image is unavailable."""

    def cleanup_image(self, image: Any) -> None:
        """Unlink the image's subscriptions."""

    def try_close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Close the endpoint if nobody uses it any more."""

    def notify_unavailable_image_link(self, resource_id: int, link: Any) -> None:
        """Notify a subscriber that was too slow that the image is unavailable."""

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
        """Notify a subscriber that the image is available again."""
