"""A network publication on an endpoint that records what was sent; the tests play its receivers.

Terms are of 64 KiB and the MTU is 1408, so that 1376 bytes fill a datagram. Times are in nanoseconds.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.appenders import ConcurrentAppender, ExclusiveAppender
from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.publication_params import (
    ExistingPublications,
    PublicationParams,
    publication_params,
)
from everlog.aeron.transport.driver.commands.sessions import Sessions
from everlog.aeron.transport.driver.log_factory import PrivateLogFactory
from everlog.aeron.transport.driver.sender.flow_control import FlowControlSettings, flow_control_for
from everlog.aeron.transport.driver.sender.network_parameters import NetworkPublicationParameters, PublicationCounters
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.driver.sender.retransmit import RetransmitHandler, RetransmitSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.aeron.transport.memory.log_memory import LogParameters
from everlog.aeron.transport.protocol import wire
from everlog.kernel.memory import Memory
from everlog.kernel.udp import SocketAddress

MS = 1_000_000
SECOND = 1000 * MS
START = 5 * SECOND
TERM = 64 << 10
MTU = 1408
SESSION, STREAM = 77, 10
INITIAL = 2**31 - 2
"""The initial term id: the third term's is negative."""
RECEIVER = SocketAddress("10.0.0.2", 4000)


def private_counters() -> Counters:
    """Room for 256 counters."""
    return Counters(Memory.allocate(256 * 512), Memory.allocate(256 * 128))


@dataclass
class Channel:
    """The properties of a publication's channel."""

    is_multicast: bool = False
    is_multi_destination: bool = False
    has_group_semantics: bool = False


@dataclass
class KeptDatagrams:
    """An endpoint that records what is sent; it accepts ``room`` datagrams, then none."""

    udp_channel: Channel = field(default_factory=Channel)
    original_uri: str = "aeron:udp?endpoint=10.0.0.2:4000"
    multicast_ttl: int = 0
    room: int = 1 << 30
    references: int = 1
    addresses: list[SocketAddress | None] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    def send(self, data: bytes, address: SocketAddress | None = None) -> int:
        if self.room == 0:
            return 0
        self.room -= 1
        self.sent.append(bytes(data))
        self.addresses.append(address)
        return len(data)

    def send_parts(
        self, memory: Memory, offset: int, ends: Sequence[int], count: int = -1, address: SocketAddress | None = None
    ) -> int:
        for index, end in enumerate(ends[:count]):
            if not self.send(memory.read(offset, end - offset), address):
                return index
            offset = end
        return count

    def dec_ref(self) -> None:
        self.references -= 1

    def taken(self) -> list[bytes]:
        """Everything sent since the last call."""
        sent, self.sent = self.sent, []
        return sent


class Conductor:
    """Records the callbacks of a publication and its sender's side."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))


@dataclass
class Spy:
    """A spy's subscription."""

    is_tether: bool = True
    is_rejoin: bool = True
    unlinked: int = 0

    def unlink(self, stream: object, /) -> None:
        self.unlinked += 1


class Sending:
    """A publication, its publisher, and its surroundings."""

    def __init__(
        self,
        channel: str = "aeron:udp?endpoint=10.0.0.2:4000",
        *,
        endpoint: KeptDatagrams | None = None,
        is_exclusive: bool = True,
        position: int = 0,
        **parameters: Any,
    ) -> None:
        self.now = START
        self.endpoint = endpoint or KeptDatagrams()
        self.conductor = Conductor()
        self.counters = private_counters()
        self.system = SystemCounters(self.counters, Configuration(), 0)
        uri = ChannelUri.parse(channel).with_params(
            {
                "term-length": "64k",
                "session-id": str(SESSION),
                "init-term-id": str(INITIAL),
                "term-id": str(wrap(INITIAL + position // TERM)),
                "term-offset": str(position % TERM),
            }
        )
        self.params = stream_params(uri)
        name = StreamName(1, 2, SESSION, STREAM, str(uri))
        counters, own = self.counters, self.endpoint.udp_channel
        self.pub_counters = PublicationCounters(
            stream_counters.publisher_position(counters, name, 0, is_exclusive=is_exclusive),
            stream_counters.publisher_limit(counters, name, 0),
            stream_counters.sender_position(counters, name, 0),
            stream_counters.sender_limit(counters, name, 0),
            stream_counters.sender_bpe(counters, name, 0),
            stream_counters.sender_naks_received(counters, name, 0),
        )
        for counter in ("publisher_position", "publisher_limit", "sender_position", "sender_limit"):
            getattr(self.pub_counters, counter).set(position)
        log = PrivateLogFactory().new_publication(log_parameters(self.params), is_sparse=False)
        many = own.is_multicast or own.is_multi_destination
        self.flow_control = flow_control_for(uri, FlowControlSettings(), has_many_receivers=many)
        self.publication = NetworkPublication(
            NetworkPublicationParameters(
                registration_id=2,
                params=self.params,
                channel_endpoint=self.endpoint,  # type: ignore[arg-type]
                log=log,
                conductor_proxy=self.conductor,  # type: ignore[arg-type]
                flow_control=self.flow_control,
                retransmit=RetransmitHandler(
                    RetransmitSettings(has_group_semantics=own.has_group_semantics),
                    self.system[SystemCounter.RETRANSMIT_OVERFLOW],
                ),
                counters=self.pub_counters,
                system=self.system,
                now_ns=self.now,
                is_exclusive=is_exclusive,
                **parameters,
            )
        )
        self.log = log.memory
        self.sender = self.publication.sender
        self.publication.inc_ref()
        limit = self.pub_counters.publisher_limit
        appender = ExclusiveAppender if is_exclusive else ConcurrentAppender
        self.appender = appender(self.log, limit.memory, limit.offset)

    # The publisher

    def offer(self, payload: bytes) -> int:
        return self.appender.offer(payload)

    # A receiver

    def status(
        self, position: int, window: int = 16384, *, receiver: int = 5, flags: int = 0, tag: int | None = None
    ) -> None:
        """Deliver a receiver's status message."""
        term_id = wrap(INITIAL + position // TERM)
        message = wire.StatusMessage(SESSION, STREAM, term_id, position % TERM, window, receiver, tag, flags)
        if self.sender.is_valid_status_message(message):
            self.sender.on_status_message(message, RECEIVER, self.now)

    def nak(self, position: int, length: int) -> None:
        """Deliver a receiver's NAK."""
        nak = wire.Nak(SESSION, STREAM, wrap(INITIAL + position // TERM), position % TERM, length)
        self.sender.on_nak(nak, self.now)

    def connect(self, position: int = 0, window: int = 16384) -> None:
        """Let a receiver join and publishers continue; forget everything sent so far."""
        self.send()
        self.status(position, window)
        self.cycle()
        self.endpoint.taken()

    # Time

    def send(self, after: int = 0) -> list[bytes]:
        """Run one cycle of the sender, ``after`` nanoseconds later. Returns what it sent."""
        self.now += after
        self.sender.send(self.now)
        return self.endpoint.taken()

    def cycle(self) -> int:
        """Run one cycle of the conductor."""
        return self.publication.update_publisher_position_and_limit()

    def time_event(self, after: int = 0) -> None:
        """Run the conductor's time event."""
        self.now += after
        self.publication.on_time_event(self.now, self.now // MS, self.conductor)  # type: ignore[arg-type]

    # What shows

    def count(self, counter: SystemCounter) -> int:
        return self.system[counter].get()

    @property
    def sender_position(self) -> int:
        return self.pub_counters.sender_position.get()

    @property
    def sender_limit(self) -> int:
        return self.pub_counters.sender_limit.get()

    @property
    def publisher_limit(self) -> int:
        return self.pub_counters.publisher_limit.get()

    def position_counter(self, value: int = 0) -> AtomicCounter:
        """A spy's position."""
        counter = self.counters.allocate(4, b"", "sub-pos", now_ms=0)
        counter.set(value)
        return counter


def wrap(value: int) -> int:
    """Wrap to an int32."""
    return int(struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))[0])


def stream_params(uri: ChannelUri) -> PublicationParams:
    """Parameters from a channel and the defaults."""
    there = ExistingPublications(Sessions(SESSION, -1, 1000), [], [], random.Random(1))
    return publication_params(uri, Configuration(), STREAM, "UDP", there)


def log_parameters(params: PublicationParams) -> LogParameters:
    """The parameters of a publication's log."""
    return LogParameters(
        correlation_id=2,
        session_id=params.session_id,
        stream_id=params.stream_id,
        initial_term_id=params.initial_term_id,
        term_length=params.term_length,
        mtu_length=params.mtu_length,
        term_id=params.term_id,
        term_offset=params.term_offset,
    )


def frames(datagram: bytes) -> list[DataHeader]:
    """The headers in a datagram of data."""
    found, at = [], 0
    while at < len(datagram):
        header = DataHeader.unpack_from(datagram, at)
        found.append(header)
        at += max(32, (header.frame_length + 31) & ~31) if header.type == 1 else 32
    return found


def heartbeats(sent: list[bytes]) -> list[DataHeader]:
    """The heartbeats among datagrams."""
    headers = [DataHeader.unpack_from(data) for data in sent if wire.frame_type(data) == 1]
    return [header for header in headers if header.frame_length == 0]


def setups(sent: list[bytes]) -> list[wire.Setup]:
    """The setup frames among datagrams."""
    found = [wire.decode(data) for data in sent if wire.frame_type(data) == wire.TYPE_SETUP]
    return [frame for frame in found if isinstance(frame, wire.Setup)]
