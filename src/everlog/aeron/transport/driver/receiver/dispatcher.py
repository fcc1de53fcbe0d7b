"""Dispatches a channel's frames to images, by stream and session, and tracks sessions without an image. Source:
DataPacketDispatcher.

Data of an unknown session in a subscribed stream moves the session through these states:

| state            | until                                              | then                             |
| ---------------- | -------------------------------------------------- | -------------------------------- |
| PENDING_SETUP    | a setup arrives, or a second passes                | INIT_IN_PROGRESS, or unknown     |
| INIT_IN_PROGRESS | the conductor has created the image, or has failed | the image takes data, or unknown |
| ON_COOL_DOWN     | its image, which timed out, is gone                | unknown                          |
| NO_INTEREST      | a client subscribes to this session, or to all     | unknown                          |

A setup for an unknown session moves it to INIT_IN_PROGRESS immediately. Data in these states is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.driver.receiver.endpoint import DispatchedImage, ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.packets import ImageSessions
from everlog.aeron.transport.driver.receiver.pending_setups import PendingSetup
from everlog.aeron.transport.protocol.wire import RTTM_REPLY, RttMeasurement, Setup
from everlog.errors import UsageError
from everlog.kernel.udp import SocketAddress

MAX_SESSIONS = 16_384
"""Most sessions without an image per stream. Further ones, which an attacker could make up, are ignored, except those
subscribed to by id and those that had an image."""


class SessionState(Enum):
    """The state of a session without an image."""

    PENDING_SETUP = "pending-setup"
    INIT_IN_PROGRESS = "init-in-progress"
    ON_COOL_DOWN = "on-cool-down"
    NO_INTEREST = "no-interest"


class CreateImage(NamedTuple):
    """A request to the conductor for a new image: the setup's fields and its source. ``control_address`` gets the
    status messages: it is the source's address, or the multicast group's control address."""

    session_id: int
    stream_id: int
    initial_term_id: int
    active_term_id: int
    term_offset: int
    term_length: int
    mtu_length: int
    transport_index: int
    flags: int
    control_address: SocketAddress
    source_address: SocketAddress
    channel_endpoint: ReceiveEndpoint


class Reception(Protocol):
    """The part of the receiver that a dispatcher uses."""

    @property
    def now_ns(self) -> int:
        """The time of the current cycle."""

    def on_pending(self, pending: PendingSetup) -> None:
        """Track a setup request that was sent to a source."""

    def create_image(self, create: CreateImage) -> None:
        """Request an image for a session."""

    def on_ttl_asymmetry(self) -> None:
        """Count a source whose datagrams travel farther than this channel's TTL lets answers travel."""


@dataclass(slots=True)
class StreamInterest:
    """Which sessions of a stream are subscribed to, and their images and states."""

    is_all_sessions: bool
    session_ids: set[int] = field(default_factory=set)
    images: dict[int, DispatchedImage] = field(default_factory=dict)
    states: dict[int, SessionState] = field(default_factory=dict)

    def is_wanted(self, session_id: int) -> bool:
        """Whether a session is subscribed to."""
        return self.is_all_sessions or session_id in self.session_ids


class DataPacketDispatcher:
    """Dispatches one channel's packets. Runs on the receiver thread. ``sessions`` is the table in which compiled code
    looks up a batch's sessions."""

    def __init__(self, reception: Reception, stream_session_limit: int = (1 << 31) - 1) -> None:
        self.sessions = ImageSessions()
        self._reception = reception
        self._stream_session_limit = stream_session_limit
        self._streams: dict[int, StreamInterest] = {}

    @property
    def has_interest(self) -> bool:
        """Whether any stream is subscribed to."""
        return bool(self._streams)

    def state_of(self, stream_id: int, session_id: int) -> SessionState | None:
        """The state of a session without an image; ``None`` if the session is unknown or has an image."""
        interest = self._streams.get(stream_id)
        return None if interest is None else interest.states.get(session_id)

    # Subscriptions

    def add_subscription(self, stream_id: int, session_id: int | None = None) -> None:
        """Subscribe to one session of a stream, or to all."""
        interest = self._streams.get(stream_id)
        if interest is None:
            interest = self._streams[stream_id] = StreamInterest(session_id is None)
            self.sessions.add_stream(stream_id)
        if session_id is None:
            interest.is_all_sessions = True
            unwanted = [each for each, state in interest.states.items() if state is SessionState.NO_INTEREST]
        else:
            interest.session_ids.add(session_id)
            unwanted = [session_id] if interest.states.get(session_id) is SessionState.NO_INTEREST else []
        for each in unwanted:
            self._forget(stream_id, interest, each)

    def remove_subscription(self, stream_id: int, session_id: int | None = None) -> None:
        """Unsubscribe from one session of a stream, or from all. Raises :class:`UsageError` for a stream without
        subscription."""
        interest = self._streams.get(stream_id)
        if interest is None:
            raise UsageError("dispatcher", found=f"no subscription to stream {stream_id}")
        if session_id is None:
            interest.is_all_sessions = False
            leaving = {*interest.images, *interest.states} - interest.session_ids
        else:
            interest.session_ids.discard(session_id)
            leaving = set() if interest.is_all_sessions else {session_id}
        for each in leaving:
            image = interest.images.pop(each, None)
            if image is not None:
                image.deactivate(self._reception.now_ns)
            self._forget(stream_id, interest, each)
        if not interest.is_all_sessions and not interest.session_ids:
            for each in list(interest.states):
                self._forget(stream_id, interest, each)
            del self._streams[stream_id]
            self.sessions.remove_stream(stream_id)

    # Images

    def add_image(self, image: DispatchedImage) -> None:
        """Direct a session's data to its image. The image ends immediately if its stream has no subscription any
        more."""
        interest = self._streams.get(image.stream_id)
        if interest is not None:
            interest.states.pop(image.session_id, None)
            interest.images[image.session_id] = image
            self.sessions.put(image.stream_id, image.session_id, image.rebuilder)
            image.activate(self._reception.now_ns)
        else:
            image.deactivate(self._reception.now_ns)

    def remove_image(self, image: DispatchedImage) -> None:
        """Stop directing data to an image. The session then gets no new image until its cool-down is over. After the
        end of the stream there is no cool-down, so the session may start again."""
        interest = self._streams.get(image.stream_id)
        if interest is not None and interest.images.get(image.session_id) is image:
            del interest.images[image.session_id]
            if image.is_end_of_stream:
                self._forget(image.stream_id, interest, image.session_id)
            else:
                self._set(image.stream_id, interest, image.session_id, SessionState.ON_COOL_DOWN)
        image.deactivate(self._reception.now_ns)

    def image_of(self, stream_id: int, session_id: int) -> DispatchedImage | None:
        """The image that takes a session's data."""
        interest = self._streams.get(stream_id)
        return None if interest is None else interest.images.get(session_id)

    def forget_pending(self, stream_id: int, session_id: int) -> None:
        """Forget a session whose setup did not arrive."""
        self._forget_if(stream_id, session_id, SessionState.PENDING_SETUP)

    def remove_cool_down(self, stream_id: int, session_id: int) -> None:
        """End a session's cool-down, so that it can have an image again."""
        self._forget_if(stream_id, session_id, SessionState.ON_COOL_DOWN)

    def remove_init_in_progress(self, stream_id: int, session_id: int) -> None:
        """Forget that an image was being created, because the conductor created none."""
        self._forget_if(stream_id, session_id, SessionState.INIT_IN_PROGRESS)

    def _forget_if(self, stream_id: int, session_id: int, state: SessionState) -> None:
        interest = self._streams.get(stream_id)
        if interest is not None and interest.states.get(session_id) is state:
            self._forget(stream_id, interest, session_id)

    def _forget(self, stream_id: int, interest: StreamInterest, session_id: int) -> None:
        interest.states.pop(session_id, None)
        self.sessions.remove(stream_id, session_id)

    def _set(self, stream_id: int, interest: StreamInterest, session_id: int, state: SessionState) -> bool:
        if session_id not in interest.states and len(interest.states) >= MAX_SESSIONS:
            may_be_made_up = session_id not in interest.session_ids and state is not SessionState.ON_COOL_DOWN
            if may_be_made_up:
                return False
        interest.states[session_id] = state
        self.sessions.put(stream_id, session_id, None)
        return True

    # Frames

    def on_new_session(
        self, stream_id: int, session_id: int, endpoint: ReceiveEndpoint, index: int, source: SocketAddress
    ) -> None:
        """Handle data of an unknown session that a transport received."""
        interest = self._streams.get(stream_id)
        if interest is None or session_id in interest.states or session_id in interest.images:
            return
        if not interest.is_wanted(session_id):
            self._set(stream_id, interest, session_id, SessionState.NO_INTEREST)
        elif self._set(stream_id, interest, session_id, SessionState.PENDING_SETUP):
            now_ns = self._reception.now_ns
            address = control_address(endpoint, index, source)
            pending = PendingSetup(session_id, stream_id, index, endpoint, address, now_ns)
            pending.ask(now_ns)
            self._reception.on_pending(pending)

    def on_setup(self, setup: Setup, endpoint: ReceiveEndpoint, transport_index: int, source: SocketAddress) -> None:
        """Handle a setup that a transport received. Raises :class:`AeronEvent` if the stream has too many images."""
        interest = self._streams.get(setup.stream_id)
        if interest is None:
            return
        image = interest.images.get(setup.session_id)
        if image is not None:
            image.add_connection_if_unknown(transport_index, source, self._reception.now_ns)
            return
        if len(interest.images) >= self._stream_session_limit:
            raise AeronEvent(f"exceeded session limit, streamId={setup.stream_id} sourceAddress=/{source}")
        state = interest.states.get(setup.session_id)
        if state is None and not interest.is_wanted(setup.session_id):
            self._set(setup.stream_id, interest, setup.session_id, SessionState.NO_INTEREST)
        elif state in (None, SessionState.PENDING_SETUP) and self._set(
            setup.stream_id, interest, setup.session_id, SessionState.INIT_IN_PROGRESS
        ):
            self._create(setup, endpoint, transport_index, source)

    def _create(self, setup: Setup, endpoint: ReceiveEndpoint, transport_index: int, source: SocketAddress) -> None:
        if endpoint.is_multicast(transport_index) and endpoint.multicast_ttl(transport_index) < setup.ttl:
            self._reception.on_ttl_asymmetry()
        create = CreateImage(
            setup.session_id,
            setup.stream_id,
            setup.initial_term_id,
            setup.active_term_id,
            setup.term_offset,
            setup.term_length,
            setup.mtu_length,
            transport_index,
            setup.flags,
            control_address(endpoint, transport_index, source),
            source,
            endpoint,
        )
        self._reception.create_image(create)

    def on_rtt_measurement(
        self, frame: RttMeasurement, endpoint: ReceiveEndpoint, transport_index: int, source: SocketAddress
    ) -> None:
        """Handle an RTT measurement: reply to a request, or pass a reply to the image."""
        image = self.image_of(frame.stream_id, frame.session_id)
        if image is None:
            return
        if frame.flags & RTTM_REPLY:
            address = control_address(endpoint, transport_index, source)
            stream = frame.session_id, frame.stream_id
            endpoint.send_rtt_measurement_to(transport_index, address, *stream, frame.echo_timestamp_ns, 0, False)
        else:
            image.on_rtt_measurement(frame, self._reception.now_ns)


def is_possible(setup: Setup) -> bool:
    """Whether an image can be created from a setup: its fields are within their limits, and its position is not before
    the stream's start."""
    return setup.is_valid() and wrap_int32(setup.active_term_id - setup.initial_term_id) >= 0


def control_address(endpoint: ReceiveEndpoint, transport_index: int, source: SocketAddress) -> SocketAddress:
    """The address for status messages: the source's, or the multicast group's control address."""
    if endpoint.is_multicast(transport_index):
        return endpoint.channel_of(transport_index).remote_control
    return source
