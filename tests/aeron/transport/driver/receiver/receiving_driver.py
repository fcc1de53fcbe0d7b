"""The receiving side of a driver on a simulated network: a receiver, one endpoint, and a conductor that creates images
as the real one does and records all other callbacks. The tests are the source, at 10.0.0.1.

Terms are of 64 KiB, times in nanoseconds.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.log_factory import PrivateLogFactory
from everlog.aeron.transport.driver.media_context import endpoint_counters
from everlog.aeron.transport.driver.receiver.congestion.cubic import CubicSettings
from everlog.aeron.transport.driver.receiver.congestion.selection import CongestionParameters, congestion_control_for
from everlog.aeron.transport.driver.receiver.dispatcher import CreateImage
from everlog.aeron.transport.driver.receiver.feedback_delay import FeedbackDelayGenerator, StaticDelayGenerator
from everlog.aeron.transport.driver.receiver.image_parameters import ImageCounters, ImageParameters, ReceiverCounters
from everlog.aeron.transport.driver.receiver.proxy import ReceiverProxy
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.receiver.receiver import Receiver, ReceiverDependencies, ReceiverSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.format.loss_report import Loss, read_losses
from everlog.aeron.transport.media.context import MediaContext
from everlog.aeron.transport.media.network import SocketSettings
from everlog.aeron.transport.media.port_manager import WildcardPortManager
from everlog.aeron.transport.media.receive_channel_endpoint import ReceiveChannelEndpoint
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.aeron.transport.memory.log_memory import LogParameters
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.aeron.transport.protocol import wire
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.testing.network.simulated import LinkConditions, SimulatedMachine, SimulatedNetwork
from tests.aeron.transport.driver.receiver.receiving import STREAM, TERM

MS = 1_000_000
SECOND = 1000 * MS
START = 5 * SECOND
RECEIVER_ID = 99
CHANNEL = "aeron:udp?endpoint=10.0.0.2:4000"


@dataclass(eq=False)
class Link:
    """A client's subscription."""

    is_tether: bool = True
    is_rejoin: bool = True
    unlinked: int = 0

    def unlink(self, stream: object, /) -> None:
        self.unlinked += 1


class Errors(list[str]):
    """Records each kind of error once."""

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        if str(error) not in self:
            self.append(str(error))


@dataclass(frozen=True)
class Options:
    """Options of all new images."""

    is_reliable: bool = True
    congestion: str | None = None
    cubic: CubicSettings | None = None
    window: int = 0
    delay: FeedbackDelayGenerator | None = None
    timestamp_offset: int | None = None
    stream_session_limit: int = (1 << 31) - 1


class Source:
    """A socket that stands for publications."""

    def __init__(self, machine: SimulatedMachine, port: int, to: SocketAddress) -> None:
        self.address = SocketAddress(machine.name, port)
        self.to = to
        self._socket = machine.open_udp(SocketSettings(family=self.address.family, bind=self.address))
        self._batch = Datagrams(32, 2048)

    def send(self, *datagrams: bytes) -> None:
        for data in datagrams:
            self._socket.send(data, self.to)

    def heard(self) -> list[wire.Frame]:
        """The frames received since the last call."""
        frames: list[wire.Frame] = []
        while self._socket.receive(self._batch):
            frames += [wire.decode(self._batch.read(index)) for index in range(len(self._batch))]
        return frames


class ReceivingDriver:
    """``links`` are the subscriptions of new images. ``told`` has the other callbacks to the conductor."""

    def __init__(
        self,
        channel: str = CHANNEL,
        options: Options | None = None,
        weather: LinkConditions | None = None,
        seed: int = 1,
    ) -> None:
        self.now = START
        self.options = options or Options()
        self.network = SimulatedNetwork(seed, weather)
        self.machine = self.network.machine("10.0.0.2")
        self.source_machine = self.network.machine("10.0.0.1")
        self.source = Source(self.source_machine, 40123, SocketAddress("10.0.0.2", 4000))
        self.values = Memory.allocate(512 * 128)
        self.counters = Counters(Memory.allocate(512 * 512), self.values)
        self.system = SystemCounters(self.counters, Configuration(), 0)
        self.errors = Errors()
        self.report = Memory.allocate(64 << 10)
        self.told: list[tuple[Any, ...]] = []
        self.links = [Link()]
        self.images: list[PublicationImage] = []
        self.positions: list[AtomicCounter] = []
        self.is_image_refused = False
        self._ids = itertools.count(100)
        self._logs = PrivateLogFactory()
        self.media = self._media()
        self._counts = ReceiverCounters.of(self.system)
        settings = ReceiverSettings(stream_session_limit=self.options.stream_session_limit)
        seams = ReceiverDependencies(self.machine.selector(), self, self.errors)  # type: ignore[arg-type]
        self.receiver = Receiver(settings, seams, self._counts, self.now)
        self.proxy = ReceiverProxy(self.receiver)
        self.endpoint = self.new_endpoint(channel)
        self.proxy.register_receive_channel_endpoint(self.endpoint)

    def _media(self) -> MediaContext:
        return MediaContext(
            network=self.machine,
            counters=endpoint_counters(self.system),
            errors=self.errors,
            conductor=self,  # type: ignore[arg-type]
            append_label=lambda counter, text: None,
            update_bind_address=lambda counter, text: None,
            sender_ports=WildcardPortManager((0, 0), is_sender=True),
            receiver_ports=WildcardPortManager((0, 0), is_sender=False),
            receiver_ids=itertools.count(RECEIVER_ID),
            epoch_ns=lambda: 0,
        )

    def channel(self, text: str) -> UdpChannel:
        return UdpChannel.parse(text, interfaces=self.machine.interfaces)

    def new_endpoint(self, text: str) -> ReceiveChannelEndpoint[Any]:
        status = self.counters.allocate(7, b"", "rcv-channel", now_ms=0)
        dispatcher = self.receiver.new_dispatcher()
        endpoint = ReceiveChannelEndpoint(self.channel(text), dispatcher, status, self.media, self.now)
        endpoint.open_channel()
        return endpoint

    def new_destination(self, text: str) -> ReceiveDestinationTransport:
        indicator = self.counters.allocate(14, b"", "rcv-local-sockaddr", now_ms=0)
        lengths = self.endpoint.buffer_lengths
        transport = ReceiveDestinationTransport(self.channel(text), self.media, indicator, lengths, self.now)
        transport.open_channel()
        return transport

    # What the conductor does

    def create_publication_image(self, create: CreateImage) -> None:
        self.told.append(("create", create))
        if self.is_image_refused:
            self.proxy.remove_init_in_progress(create.channel_endpoint, create.session_id, create.stream_id)
            return
        correlation_id = next(self._ids)
        name = StreamName(1, correlation_id, create.session_id, create.stream_id, CHANNEL)
        start = (create.active_term_id - create.initial_term_id) * TERM + create.term_offset
        subscriptions = []
        for link in self.links:
            position = stream_counters.subscriber_position(self.counters, name, 0, join_position=start)
            position.set_release(start)
            subscriptions.append((link, position))
            self.positions.append(position)
        image = PublicationImage(
            ImageParameters(
                correlation_id=correlation_id,
                session_id=create.session_id,
                stream_id=create.stream_id,
                initial_term_id=create.initial_term_id,
                active_term_id=create.active_term_id,
                term_offset=create.term_offset,
                flags=create.flags,
                is_reliable=self.options.is_reliable,
                channel_endpoint=create.channel_endpoint,
                transport_index=create.transport_index,
                control_address=create.control_address,
                source_identity=str(create.source_address),
                log=self._logs.new_image(self._log_parameters(correlation_id, create), is_sparse=False),
                subscriptions=subscriptions,
                counters=ImageCounters(
                    stream_counters.receiver_hwm(self.counters, name, 0),
                    stream_counters.receiver_position(self.counters, name, 0),
                    stream_counters.receiver_naks_sent(self.counters, name, 0),
                ),
                system=self._counts,
                congestion_control=congestion_control_for(self._congestion(create, name)),
                delay=self.options.delay or StaticDelayGenerator(0, 10 * MS),
                loss_report=LossReport(self.report),
                now_ns=self.now,
                timestamp_offset=self.options.timestamp_offset,
            )
        )
        self.images.append(image)
        create.channel_endpoint.inc_ref_images()
        self.proxy.new_publication_image(create.channel_endpoint, image)

    def _congestion(self, create: CreateImage, name: StreamName) -> CongestionParameters:
        return CongestionParameters(
            name=self.options.congestion,
            term_length=create.term_length,
            mtu_length=create.mtu_length,
            now_ns=self.now,
            receiver_window_length=self.options.window,
            indicators=lambda kind: stream_counters.per_image(self.counters, kind, name, 0),
            cubic=self.options.cubic or CubicSettings(),
        )

    def _log_parameters(self, correlation_id: int, create: CreateImage) -> LogParameters:
        return LogParameters(
            correlation_id=correlation_id,
            session_id=create.session_id,
            stream_id=create.stream_id,
            initial_term_id=create.initial_term_id,
            term_length=create.term_length,
            mtu_length=create.mtu_length,
            log_type=2,
        )

    def __getattr__(self, name: str) -> Any:
        """Record any other callback to the conductor."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.told.append((name, *arguments))

    def names(self) -> list[str]:
        """The names of recorded callbacks."""
        return [each[0] for each in self.told]

    # Time

    def step(self, after: int = 0) -> list[wire.Frame]:
        """Run one cycle of all parts, ``after`` nanoseconds later. Returns the frames that the source received."""
        self.now += after
        self.network.advance(self.now)
        self.receiver.do_work(self.now, self.now // MS)
        for image in self.images:
            image.track_rebuild(self.now, self.now // MS)
        self.receiver.do_work(self.now, self.now // MS)
        self.network.advance(self.now)
        return self.source.heard()

    def run(self, duration: int, every: int = 10 * MS) -> list[wire.Frame]:
        """Run many cycles. Returns the frames that the source received."""
        frames: list[wire.Frame] = []
        for _ in range(duration // every):
            frames += self.step(every)
        return frames

    def time_event(self, after: int = 0) -> None:
        """Run the conductor's time event."""
        self.now += after
        for image in self.images:
            image.on_time_event(self.now, self.now // MS, self)  # type: ignore[arg-type]

    # Short cuts

    def subscribe(self, session_id: int | None = None, stream_id: int = STREAM) -> None:
        self.proxy.add_subscription(self.endpoint, stream_id, session_id)
        self.step()
        self.step()

    def connect(self, *setups: bytes) -> PublicationImage:
        """Subscribe, and create an image with a setup."""
        self.subscribe()
        self.source.send(*setups)
        for _ in range(3):
            self.step()
        return self.images[-1]

    def count(self, counter: SystemCounter) -> int:
        return self.system[counter].get()

    def losses(self) -> list[Loss]:
        """The loss report."""
        losses, problem = read_losses(self.report.read(0, len(self.report)))
        assert problem is None
        return losses


def statuses(frames: list[wire.Frame]) -> list[wire.StatusMessage]:
    """The status messages among frames."""
    return [frame for frame in frames if isinstance(frame, wire.StatusMessage)]


def naks(frames: list[wire.Frame]) -> list[wire.Nak]:
    """The NAKs among frames."""
    return [frame for frame in frames if isinstance(frame, wire.Nak)]


def seeded(seed: int) -> random.Random:
    """A random source with a fixed seed."""
    return random.Random(seed)
