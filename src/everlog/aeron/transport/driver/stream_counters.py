"""Counters of publications, images, subscriptions, channels and clients. Their types, keys and labels are the ones
by which other processes find them.

Source: StreamCounter, ChannelEndpointStatus, LocalSocketAddressStatus, HeartbeatTimestamp."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.transport.format import counters as types
from everlog.aeron.transport.format.counters import MAX_KEY_LENGTH, MAX_LABEL_LENGTH
from everlog.aeron.transport.format.layouts import ChannelKey, CounterMetaData, HeartbeatKey, LocalSocketKey, StreamKey
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters

LOCAL_SOCKET_ADDRESS = 14
FLOW_CONTROL_RECEIVERS = 17
MDC_DESTINATIONS = 18
SEND_LOCAL_ADDRESS, RECEIVE_LOCAL_ADDRESS = "snd-local-sockaddr", "rcv-local-sockaddr"
MAX_ADDRESS_LENGTH = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65536")
_JOIN_ROOM = 20
"""A label with fewer free bytes than this omits the position at which the subscriber joined."""

INITIALIZING, ERRORED, ACTIVE, CLOSING = 0, -1, 1, 2
"""Values of a channel's status counter."""
NO_STATUS = -1
"""Status counter id of channels that have none: IPC and spies."""


@dataclass(frozen=True, slots=True)
class StreamName:
    """The stream that a counter describes. ``client_id`` owns the counter; ``channel`` is the URI as the client wrote
    it."""

    client_id: int
    registration_id: int
    session_id: int
    stream_id: int
    channel: str


def publisher_position(counters: Counters, name: StreamName, now_ms: int, *, is_exclusive: bool) -> AtomicCounter:
    """Allocate the counter of the position up to which a publication has been claimed."""
    kind = "pub-pos (exclusive)" if is_exclusive else "pub-pos (concurrent)"
    return stream_counter(counters, types.PUBLISHER_POSITION, kind, name, now_ms)


def publisher_limit(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the position up to which a publication may be claimed."""
    return stream_counter(counters, types.PUBLISHER_LIMIT, "pub-lmt", name, now_ms)


def sender_position(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the position up to which a network publication was sent."""
    return stream_counter(counters, types.SENDER_POSITION, "snd-pos", name, now_ms)


def sender_limit(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the position up to which flow control lets a network publication be sent."""
    return stream_counter(counters, types.SENDER_LIMIT, "snd-lmt", name, now_ms)


def sender_bpe(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of back-pressure events: how often flow control stopped the sender."""
    return stream_counter(counters, types.SENDER_BPE, "snd-bpe", name, now_ms)


def sender_naks_received(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of NAKs received for a publication."""
    return stream_counter(counters, types.SENDER_NAKS_RECEIVED, "snd-naks-received", name, now_ms)


def subscriber_position(counters: Counters, name: StreamName, now_ms: int, *, join_position: int) -> AtomicCounter:
    """Allocate the counter of a subscriber's position in an image, which starts at ``join_position``."""
    counter = stream_counter(counters, types.SUBSCRIBER_POSITION, "sub-pos", name, now_ms, join_position)
    counter.set_release(join_position)
    return counter


def receiver_hwm(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the highest position received of an image."""
    return stream_counter(counters, types.RECEIVER_HWM, "rcv-hwm", name, now_ms)


def receiver_position(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the position up to which an image was received without a gap."""
    return stream_counter(counters, types.RECEIVER_POSITION, "rcv-pos", name, now_ms)


def receiver_naks_sent(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of NAKs sent for an image."""
    return stream_counter(counters, types.RECEIVER_NAKS_SENT, "rcv-naks-sent", name, now_ms)


def flow_control_receivers(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate the counter of the receivers that a publication's flow control tracks."""
    return stream_counter(counters, FLOW_CONTROL_RECEIVERS, "fc-receivers", name, now_ms)


def per_image(counters: Counters, kind: str, name: StreamName, now_ms: int) -> AtomicCounter:
    """Allocate a counter that only images have, such as ``rcv-cc-cubic-wnd``."""
    return stream_counter(counters, types.PER_IMAGE, kind, name, now_ms)


def stream_counter(
    counters: Counters, type_id: int, kind: str, name: StreamName, now_ms: int, join_position: int | None = None
) -> AtomicCounter:
    """Allocate a stream's counter, labelled ``KIND: REGISTRATION SESSION STREAM CHANNEL``. A channel that doesn't fit
    is cut, in the label and in the key."""
    channel = _ascii(name.channel)
    kept = channel[: MAX_KEY_LENGTH - StreamKey.size]
    key = StreamKey.pack(
        registration_id=name.registration_id,
        session_id=name.session_id,
        stream_id=name.stream_id,
        channel_length=len(kept),
    )
    label = f"{kind}: {name.registration_id} {name.session_id} {name.stream_id} {channel.decode()}"[:MAX_LABEL_LENGTH]
    if join_position is not None and len(label) < MAX_LABEL_LENGTH - _JOIN_ROOM:
        label += f" @{join_position}"
    ids = {"registration_id": name.registration_id, "owner_id": name.client_id}
    return counters.allocate(type_id, key + kept, label, now_ms=now_ms, **ids)


def send_channel_status(counters: Counters, registration_id: int, channel: str, now_ms: int) -> AtomicCounter:
    """Allocate the status counter of a sending channel."""
    return channel_counter(counters, types.SEND_CHANNEL_STATUS, "snd-channel", registration_id, channel, now_ms)


def receive_channel_status(counters: Counters, registration_id: int, channel: str, now_ms: int) -> AtomicCounter:
    """Allocate the status counter of a receiving channel."""
    return channel_counter(counters, types.RECEIVE_CHANNEL_STATUS, "rcv-channel", registration_id, channel, now_ms)


def mdc_destinations(counters: Counters, registration_id: int, channel: str, now_ms: int) -> AtomicCounter:
    """Allocate the counter of a multi-destination channel's destinations."""
    return channel_counter(counters, MDC_DESTINATIONS, "mdc-num-dest", registration_id, channel, now_ms)


def channel_counter(
    counters: Counters, type_id: int, kind: str, registration_id: int, channel: str, now_ms: int
) -> AtomicCounter:
    """Allocate a channel's counter, labelled ``KIND: CHANNEL `` with a trailing space, so that an address can be
    appended."""
    text = _ascii(channel)
    kept = text[: MAX_KEY_LENGTH - ChannelKey.size]
    label = f"{kind}: {text.decode()}"[:MAX_LABEL_LENGTH]
    label += " " if len(label) < MAX_LABEL_LENGTH else ""
    key = ChannelKey.pack(channel_length=len(kept)) + kept
    return counters.allocate(type_id, key, label, registration_id=registration_id, now_ms=now_ms)


def local_socket_address(
    counters: Counters, registration_id: int, channel_status_id: int, kind: str, now_ms: int
) -> AtomicCounter:
    """Allocate the counter of a socket's local address, before the socket is bound. ``kind`` is
    :data:`SEND_LOCAL_ADDRESS` or :data:`RECEIVE_LOCAL_ADDRESS`."""
    key = LocalSocketKey.pack(channel_status_id=channel_status_id)
    label = f"{kind}: {channel_status_id} "
    return counters.allocate(LOCAL_SOCKET_ADDRESS, key, label, registration_id=registration_id, now_ms=now_ms)


def update_bind_address(counters: Counters, counter: AtomicCounter, address: str) -> None:
    """Write the address to which a socket is bound into its counter's key and label. Raises ``ValueError`` for an
    address longer than :data:`MAX_ADDRESS_LENGTH`."""
    text = _ascii(address)
    if len(text) > MAX_ADDRESS_LENGTH:
        raise ValueError(f"a socket address has at most {MAX_ADDRESS_LENGTH} bytes, not {len(text)}")
    metadata = counters.metadata
    key = counter.id * CounterMetaData.size + CounterMetaData.field("key").offset
    metadata.write(key + LocalSocketKey.size, text)
    metadata.put_i32(key + LocalSocketKey.field("local_address_length").offset, len(text))
    counters.append_label(counter.id, address)


def client_heartbeat(counters: Counters, client_id: int, now_ms: int) -> AtomicCounter:
    """Allocate a client's heartbeat counter: the time of its last keepalive, in milliseconds since 1970."""
    key = HeartbeatKey.pack(client_id=client_id)
    label = f"client-heartbeat: id={client_id}"
    ids = {"registration_id": client_id, "owner_id": client_id}
    counter = counters.allocate(types.HEARTBEAT, key, label, now_ms=now_ms, **ids)
    counter.set_release(now_ms)
    return counter


def _ascii(text: str) -> bytes:
    """Encode as Agrona does: question marks replace what is not ASCII."""
    return text.encode("ascii", "replace")
