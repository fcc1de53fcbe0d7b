"""Counters of publications, images, subscriptions, channels and clients: their types, keys and labels, as other
processes look for them. Source: StreamCounter, ChannelEndpointStatus, LocalSocketAddressStatus, HeartbeatTimestamp."""

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
"""Fewer free bytes of a label, and the position at which a subscriber joined is left out."""

INITIALIZING, ERRORED, ACTIVE, CLOSING = 0, -1, 1, 2
"""What a channel's status counter says."""
NO_STATUS = -1
"""Id of the status counter of a channel without one: IPC, spies."""


@dataclass(frozen=True, slots=True)
class StreamName:
    """Whose counter it is. ``client_id`` owns it; ``channel`` is as the client wrote it."""

    client_id: int
    registration_id: int
    session_id: int
    stream_id: int
    channel: str


def publisher_position(counters: Counters, name: StreamName, now_ms: int, *, is_exclusive: bool) -> AtomicCounter:
    """How far a publication has claimed."""
    kind = "pub-pos (exclusive)" if is_exclusive else "pub-pos (concurrent)"
    return stream_counter(counters, types.PUBLISHER_POSITION, kind, name, now_ms)


def publisher_limit(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """How far a publication may claim."""
    return stream_counter(counters, types.PUBLISHER_LIMIT, "pub-lmt", name, now_ms)


def sender_position(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """How far a network publication was sent."""
    return stream_counter(counters, types.SENDER_POSITION, "snd-pos", name, now_ms)


def sender_limit(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """How far it may be sent."""
    return stream_counter(counters, types.SENDER_LIMIT, "snd-lmt", name, now_ms)


def sender_bpe(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """How often the sender was kept back."""
    return stream_counter(counters, types.SENDER_BPE, "snd-bpe", name, now_ms)


def sender_naks_received(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """NAKs that came for a publication."""
    return stream_counter(counters, types.SENDER_NAKS_RECEIVED, "snd-naks-received", name, now_ms)


def subscriber_position(counters: Counters, name: StreamName, now_ms: int, *, join_position: int) -> AtomicCounter:
    """How far a subscriber has read an image; it begins at ``join_position``."""
    counter = stream_counter(counters, types.SUBSCRIBER_POSITION, "sub-pos", name, now_ms, join_position)
    counter.set_release(join_position)
    return counter


def receiver_hwm(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """The highest position that was received of an image."""
    return stream_counter(counters, types.RECEIVER_HWM, "rcv-hwm", name, now_ms)


def receiver_position(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """How far an image was received without a gap."""
    return stream_counter(counters, types.RECEIVER_POSITION, "rcv-pos", name, now_ms)


def receiver_naks_sent(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """NAKs that were sent for an image."""
    return stream_counter(counters, types.RECEIVER_NAKS_SENT, "rcv-naks-sent", name, now_ms)


def flow_control_receivers(counters: Counters, name: StreamName, now_ms: int) -> AtomicCounter:
    """Receivers that a publication's flow control knows."""
    return stream_counter(counters, FLOW_CONTROL_RECEIVERS, "fc-receivers", name, now_ms)


def per_image(counters: Counters, kind: str, name: StreamName, now_ms: int) -> AtomicCounter:
    """A counter that is of an image alone, such as ``rcv-cc-cubic-wnd``."""
    return stream_counter(counters, types.PER_IMAGE, kind, name, now_ms)


def stream_counter(
    counters: Counters, type_id: int, kind: str, name: StreamName, now_ms: int, join_position: int | None = None
) -> AtomicCounter:
    """``KIND: REGISTRATION SESSION STREAM CHANNEL``, the channel cut where there is no room for it."""
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
    """Status of a channel that is sent on."""
    return channel_counter(counters, types.SEND_CHANNEL_STATUS, "snd-channel", registration_id, channel, now_ms)


def receive_channel_status(counters: Counters, registration_id: int, channel: str, now_ms: int) -> AtomicCounter:
    """Status of a channel that is received on."""
    return channel_counter(counters, types.RECEIVE_CHANNEL_STATUS, "rcv-channel", registration_id, channel, now_ms)


def mdc_destinations(counters: Counters, registration_id: int, channel: str, now_ms: int) -> AtomicCounter:
    """How many destinations a channel with many has."""
    return channel_counter(counters, MDC_DESTINATIONS, "mdc-num-dest", registration_id, channel, now_ms)


def channel_counter(
    counters: Counters, type_id: int, kind: str, registration_id: int, channel: str, now_ms: int
) -> AtomicCounter:
    """``KIND: CHANNEL `` with a space behind it, where an address may follow."""
    text = _ascii(channel)
    kept = text[: MAX_KEY_LENGTH - ChannelKey.size]
    label = f"{kind}: {text.decode()}"[:MAX_LABEL_LENGTH]
    label += " " if len(label) < MAX_LABEL_LENGTH else ""
    key = ChannelKey.pack(channel_length=len(kept)) + kept
    return counters.allocate(type_id, key, label, registration_id=registration_id, now_ms=now_ms)


def local_socket_address(
    counters: Counters, registration_id: int, channel_status_id: int, kind: str, now_ms: int
) -> AtomicCounter:
    """Of a socket that is not bound yet. ``kind`` is :data:`SEND_LOCAL_ADDRESS` or :data:`RECEIVE_LOCAL_ADDRESS`."""
    key = LocalSocketKey.pack(channel_status_id=channel_status_id)
    label = f"{kind}: {channel_status_id} "
    return counters.allocate(LOCAL_SOCKET_ADDRESS, key, label, registration_id=registration_id, now_ms=now_ms)


def update_bind_address(counters: Counters, counter: AtomicCounter, address: str) -> None:
    """Tell where a socket is bound: in its counter's key and label. Raises ``ValueError`` for an address that is longer
    than any can be."""
    text = _ascii(address)
    if len(text) > MAX_ADDRESS_LENGTH:
        raise ValueError(f"an address of {len(text)} bytes, at most {MAX_ADDRESS_LENGTH}")
    metadata = counters.metadata
    key = counter.id * CounterMetaData.size + CounterMetaData.field("key").offset
    metadata.write(key + LocalSocketKey.size, text)
    metadata.put_i32(key + LocalSocketKey.field("local_address_length").offset, len(text))
    counters.append_label(counter.id, address)


def client_heartbeat(counters: Counters, client_id: int, now_ms: int) -> AtomicCounter:
    """When a client was last alive, in milliseconds since 1970."""
    key = HeartbeatKey.pack(client_id=client_id)
    label = f"client-heartbeat: id={client_id}"
    ids = {"registration_id": client_id, "owner_id": client_id}
    counter = counters.allocate(types.HEARTBEAT, key, label, now_ms=now_ms, **ids)
    counter.set_release(now_ms)
    return counter


def _ascii(text: str) -> bytes:
    """As Agrona writes ASCII: what is none is a question mark."""
    return text.encode("ascii", "replace")
