"""Creates images from their setup, channel and subscriptions. Source: DriverConductor,
CreatePublicationImageCommand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.links import NetworkSubscriptionLink
from everlog.aeron.transport.driver.receiver.congestion.control import CongestionControl
from everlog.aeron.transport.driver.receiver.congestion.cubic import CubicSettings
from everlog.aeron.transport.driver.receiver.congestion.selection import (
    STATIC,
    CongestionParameters,
    congestion_control_for,
)
from everlog.aeron.transport.driver.receiver.dispatcher import CreateImage
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.feedback_delay import (
    FeedbackDelayGenerator,
    OptimalMulticastDelayGenerator,
    StaticDelayGenerator,
)
from everlog.aeron.transport.driver.receiver.image_parameters import ImageCounters, ImageParameters, ReceiverCounters
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.untethered import UntetheredTimeouts
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.log_memory import IMAGE, LogParameters
from everlog.aeron.transport.protocol.wire import SETUP_GROUP

MIN_NAK_DELAY_NS = 1_000
"""The least base of the retry delay for NAKs, for channels that ask for a shorter delay before the first NAK."""

Subscriptions = list[tuple[NetworkSubscriptionLink, AtomicCounter]]


@dataclass(frozen=True, slots=True)
class Interest:
    """The subscriptions to a new image, and the options they give it. ``is_group`` is true if the stream has other
    receivers."""

    links: list[NetworkSubscriptionLink]
    is_reliable: bool
    is_sparse: bool
    is_group: bool

    @classmethod
    def of(cls, links: list[NetworkSubscriptionLink], channel: UdpChannel, flags: int) -> Interest | None:
        """Combine the options of subscriptions; ``None`` without any. ``flags`` are the setup's."""
        if not links:
            return None
        oldest = min(links, key=lambda link: link.registration_id)
        group = links[0].group
        is_group = (channel.is_multicast or bool(flags & SETUP_GROUP)) if group is None else group
        return cls(links, links[0].is_reliable, oldest.is_sparse, is_group)


@dataclass(frozen=True, slots=True)
class NewImage:
    """The parameters of an image to create."""

    correlation_id: int
    request: CreateImage
    endpoint: ReceiveEndpoint
    params: SubscriptionParams
    interest: Interest

    @property
    def join_position(self) -> int:
        """The image's first position."""
        request = self.request
        count = wrap_int32(request.active_term_id - request.initial_term_id)
        return count * request.term_length + request.term_offset


class ImageMaker:
    """Creates images with their counters."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._context = parts.context
        self._system = ReceiverCounters.of(parts.context.system_counters)
        configuration = parts.context.configuration
        delay_ns = configuration.nak_unicast_delay_ns
        self._unicast_delay = StaticDelayGenerator(delay_ns, delay_ns * configuration.nak_unicast_retry_delay_ratio)
        self._multicast_delay = OptimalMulticastDelayGenerator(
            configuration.nak_multicast_max_backoff_ns, configuration.nak_multicast_group_size, parts.context.random
        )

    def log_parameters(self, new: NewImage) -> LogParameters:
        """The parameters of a new image's log."""
        request, params, endpoint = new.request, new.params, new.endpoint
        system = self._context.system_sockets
        return LogParameters(
            correlation_id=new.correlation_id,
            session_id=request.session_id,
            stream_id=request.stream_id,
            initial_term_id=request.initial_term_id,
            term_length=request.term_length,
            mtu_length=request.mtu_length,
            log_type=IMAGE,
            term_offset=request.term_offset,
            receiver_window_length=params.receiver_window_length,
            socket_sndbuf_length=endpoint.socket_sndbuf_length,
            os_default_socket_sndbuf_length=system.default_sndbuf,
            os_max_socket_sndbuf_length=system.max_sndbuf,
            socket_rcvbuf_length=endpoint.socket_rcvbuf_length,
            os_default_socket_rcvbuf_length=system.default_rcvbuf,
            os_max_socket_rcvbuf_length=system.max_rcvbuf,
            untethered_window_limit_timeout_ns=params.untethered_window_limit_timeout_ns,
            untethered_linger_timeout_ns=params.untethered_linger_timeout_ns,
            untethered_resting_timeout_ns=params.untethered_resting_timeout_ns,
            group=new.interest.is_group,
            is_response=params.is_response,
            rejoin=params.is_rejoin,
            reliable=new.interest.is_reliable,
            sparse=new.interest.is_sparse,
            tether=params.is_tether,
        )

    def make(self, new: NewImage, log: DriverLog) -> tuple[PublicationImage, Subscriptions]:
        """Create an image, and the positions of its first subscriptions. An error leaves nothing allocated."""
        opened: list[AtomicCounter] = []
        try:
            subscriptions = self._positions(new, opened)
            congestion = self._congestion(new, opened)
            counters = self._counters(new, opened)
            return self._image(new, log, subscriptions, congestion, counters), subscriptions
        except BaseException:
            for counter in opened:
                counter.close()
            raise

    def _name(self, new: NewImage, registration_id: int, link: NetworkSubscriptionLink) -> StreamName:
        request = new.request
        client_id = link.client.client_id
        return StreamName(client_id, registration_id, request.session_id, request.stream_id, link.channel)

    def _positions(self, new: NewImage, opened: list[AtomicCounter]) -> Subscriptions:
        counters, now_ms = self._context.counters, self._context.now_ms
        found: Subscriptions = []
        for link in new.interest.links:
            name = self._name(new, link.registration_id, link)
            position = stream_counters.subscriber_position(counters, name, now_ms, join_position=new.join_position)
            opened.append(position)
            found.append((link, position))
        return found

    def _congestion(self, new: NewImage, opened: list[AtomicCounter]) -> CongestionControl:
        """Create the congestion control of the channel's ``cc``, or the driver's default."""
        configuration, channel = self._context.configuration, new.endpoint.udp_channel
        name = self._name(new, new.correlation_id, new.interest.links[0])
        default = None if configuration.congestion_control == "default" else configuration.congestion_control

        def indicator(kind: str) -> AtomicCounter:
            opened.append(stream_counters.per_image(self._context.counters, kind, name, self._context.now_ms))
            return opened[-1]

        return congestion_control_for(
            CongestionParameters(
                term_length=new.request.term_length,
                mtu_length=new.request.mtu_length,
                now_ns=self._context.now_ns,
                name=STATIC if default == STATIC else channel.uri.get("cc", default),
                receiver_window_length=channel.receiver_window_length,
                initial_window_length=configuration.initial_window_length,
                indicators=indicator,
                cubic=CubicSettings(
                    measure_rtt=configuration.cubic_measure_rtt,
                    initial_rtt_ns=configuration.cubic_initial_rtt_ns,
                    tcp_mode=configuration.cubic_tcp_mode,
                ),
            )
        )

    def _counters(self, new: NewImage, opened: list[AtomicCounter]) -> ImageCounters:
        counters, now_ms = self._context.counters, self._context.now_ms
        name = self._name(new, new.correlation_id, new.interest.links[0])
        makers = stream_counters.receiver_hwm, stream_counters.receiver_position, stream_counters.receiver_naks_sent
        made = []
        for maker in makers:
            made.append(partial(maker, counters, name)(now_ms))
            opened.append(made[-1])
        return ImageCounters(*made)

    def _image(
        self,
        new: NewImage,
        log: DriverLog,
        subscriptions: Subscriptions,
        congestion: CongestionControl,
        counters: ImageCounters,
    ) -> PublicationImage:
        request, params, configuration = new.request, new.params, self._context.configuration
        return PublicationImage(
            ImageParameters(
                correlation_id=new.correlation_id,
                session_id=request.session_id,
                stream_id=request.stream_id,
                initial_term_id=request.initial_term_id,
                active_term_id=request.active_term_id,
                term_offset=request.term_offset,
                flags=request.flags,
                is_reliable=new.interest.is_reliable,
                channel_endpoint=new.endpoint,
                transport_index=request.transport_index,
                control_address=request.control_address,
                source_identity=str(request.source_address),
                log=log,
                subscriptions=subscriptions,
                counters=counters,
                system=self._system,
                congestion_control=congestion,
                delay=self._delay(new),
                loss_report=self._parts.loss_report,
                now_ns=self._context.now_ns,
                image_liveness_timeout_ns=configuration.image_liveness_timeout_ns,
                status_message_timeout_ns=configuration.status_message_timeout_ns,
                untethered=UntetheredTimeouts(
                    params.untethered_window_limit_timeout_ns,
                    params.untethered_linger_timeout_ns,
                    params.untethered_resting_timeout_ns,
                ),
                timestamp_offset=new.endpoint.udp_channel.channel_receive_timestamp_offset,
            )
        )

    def _delay(self, new: NewImage) -> FeedbackDelayGenerator:
        if not new.interest.is_reliable:
            return StaticDelayGenerator(0)
        if new.interest.is_group:
            return self._multicast_delay
        delay_ns = new.endpoint.udp_channel.nak_delay_ns
        if delay_ns is None:
            return self._unicast_delay
        ratio = self._context.configuration.nak_unicast_retry_delay_ratio
        return StaticDelayGenerator(delay_ns, max(delay_ns, MIN_NAK_DELAY_NS) * ratio)
