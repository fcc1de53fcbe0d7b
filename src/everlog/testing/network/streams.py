"""Network publications on simulated machines: a driver's sender agents, endpoints and flow control, without its
conductor and without clients' commands.

The test plays the conductor: :meth:`PublishingMachine.cycle` runs one cycle of the conductor and of the sender. Times
are nanoseconds of the simulated network.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.transport.client.appending.appenders import ExclusiveAppender
from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.conductor_proxy import ConductorProxy
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths, publication_log
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
from everlog.aeron.transport.driver.sender.sender import Sender, SenderDependencies, SenderProxy, SenderSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.media.context import EndpointCounters, MediaContext
from everlog.aeron.transport.media.port_manager import WildcardPortManager
from everlog.aeron.transport.media.send_channel_endpoint import SendChannelEndpoint
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.kernel.memory import Memory
from everlog.testing.network.simulated import SimulatedMachine
from everlog.time_units import NS_PER_MS

COUNTER_COUNT = 256
FIRST_SESSION = 77


@dataclass
class Environment:
    """A driver's counters. It collects ``errors``, and requests to the missing conductor."""

    machine: SimulatedMachine
    receiver_id: int = 1
    errors: list[BaseException | str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counters = Counters(Memory.allocate(COUNTER_COUNT * 512), Memory.allocate(COUNTER_COUNT * 128))
        self.system = SystemCounters(self.counters, Configuration(), 0)
        self.conductor = ConductorProxy()
        self.logs = PrivateLogFactory()
        self.ids = itertools.count(1)
        self.media = MediaContext(
            network=self.machine,
            counters=EndpointCounters(
                **{name: self.system[SystemCounter[name.upper()]] for name in EndpointCounters.__dataclass_fields__}
            ),
            errors=self,
            conductor=self.conductor,
            append_label=lambda counter, text: self.counters.append_label(counter.id, f" {text}"),
            update_bind_address=lambda counter, text: None,
            sender_ports=WildcardPortManager(is_sender=True),
            receiver_ports=WildcardPortManager(is_sender=False),
            receiver_ids=itertools.count(self.receiver_id),
            epoch_ns=lambda: self.machine.network.now_ns,
        )

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        """Keep an error for the test."""
        self.errors.append(error)

    def channel(self, uri: str) -> UdpChannel:
        """Parse a channel URI for this machine."""
        return UdpChannel.parse(uri, interfaces=self.machine.interfaces)

    def count(self, counter: SystemCounter) -> int:
        """Return the value of one of the driver's counters."""
        return self.system[counter].get()


class Publishing:
    """A publication and its one publisher."""

    def __init__(self, publication: NetworkPublication, endpoint: SendChannelEndpoint) -> None:
        self.publication = publication
        self.endpoint = endpoint
        limit = publication.parameters.counters.publisher_limit
        self.appender = ExclusiveAppender(publication.log.memory, limit.memory, limit.offset)

    @property
    def sender_position(self) -> int:
        """The position up to which the publication is sent."""
        return self.publication.consumer_position


class PublishingMachine:
    """A machine with a sender."""

    def __init__(self, machine: SimulatedMachine, seed: int = 0) -> None:
        self.surroundings = Environment(machine)
        self.now_ns = machine.network.now_ns
        self.publications: list[Publishing] = []
        self._random = random.Random(seed)
        self._sessions = Sessions(FIRST_SESSION, -1, -1)
        seams: SenderDependencies = SenderDependencies(
            machine.selector(), self.surroundings.conductor, self.surroundings
        )
        self.sender = Sender(SenderSettings(), seams, self.surroundings.system, self.now_ns)
        self.proxy = SenderProxy(self.sender)

    def cycle(self, now_ns: int) -> int:
        """Run one cycle of the sender and of the conductor; return the amount of work done."""
        self.now_ns = now_ns
        work = self.sender.do_work(now_ns, now_ns // NS_PER_MS)
        for publishing in self.publications:
            work += publishing.publication.update_publisher_position_and_limit()
        return work

    def time_event(self) -> None:
        """Run the conductor's timer event for each publication."""
        for publishing in self.publications:
            publishing.publication.on_time_event(self.now_ns, self.now_ns // NS_PER_MS, self)

    def add_publication(self, uri: str, stream_id: int) -> Publishing:
        """Add an exclusive publication with its own channel endpoint."""
        surroundings, channel = self.surroundings, self.surroundings.channel(uri)
        registration_id = next(surroundings.ids)
        status = stream_counters.send_channel_status(surroundings.counters, registration_id, uri, 0)
        endpoint = SendChannelEndpoint(channel, status, surroundings.media)
        endpoint.open_channel()
        endpoint.indicate_active()
        endpoint.inc_ref()
        self.proxy.register_send_channel_endpoint(endpoint)
        there = ExistingPublications(self._sessions, [], [], self._random)
        params = publication_params(channel.uri, Configuration(), stream_id, channel.canonical_form, there)
        publication = NetworkPublication(self._parameters(registration_id, params, channel, endpoint))
        publication.inc_ref()
        self.proxy.new_network_publication(publication)
        self.publications.append(Publishing(publication, endpoint))
        return self.publications[-1]

    def _parameters(
        self, registration_id: int, params: PublicationParams, channel: UdpChannel, endpoint: SendChannelEndpoint
    ) -> NetworkPublicationParameters:
        surroundings = self.surroundings
        many = channel.is_multicast or channel.is_multi_destination
        group = RetransmitSettings(has_group_semantics=channel.has_group_semantics, max_retransmits=params.max_resend)
        name = StreamName(1, registration_id, params.session_id, params.stream_id, channel.original_uri)
        return NetworkPublicationParameters(
            registration_id=registration_id,
            params=params,
            channel_endpoint=endpoint,
            log=surroundings.logs.new_publication(
                publication_log(params, registration_id, SocketLengths(), is_exclusive=True), is_sparse=False
            ),
            conductor_proxy=surroundings.conductor,
            flow_control=flow_control_for(channel.uri, FlowControlSettings(), has_many_receivers=many),
            retransmit=RetransmitHandler(group, surroundings.system[SystemCounter.RETRANSMIT_OVERFLOW]),
            counters=publication_counters(surroundings.counters, name, params.position),
            system=surroundings.system,
            now_ns=self.now_ns,
            is_exclusive=True,
        )

    # Callbacks from publications to the conductor

    def cleanup_spies(self, publication: NetworkPublication) -> None:
        """Do nothing: there are no spies."""

    def cleanup_publication(self, publication: NetworkPublication) -> None:
        """Remove a publication whose linger time has passed."""
        self.proxy.remove_network_publication(publication)

    def notify_unavailable_image_link(self, resource_id: int, link: Any) -> None:
        """Do nothing: there are no spies."""

    def notify_available_image_link(self, *arguments: Any) -> None:
        """Do nothing: there are no spies."""


def publication_counters(counters: Counters, name: StreamName, position: int) -> PublicationCounters:
    """Allocate a publication's counters, set to the position at which its stream begins."""
    made = PublicationCounters(
        stream_counters.publisher_position(counters, name, 0, is_exclusive=True),
        stream_counters.publisher_limit(counters, name, 0),
        stream_counters.sender_position(counters, name, 0),
        stream_counters.sender_limit(counters, name, 0),
        stream_counters.sender_bpe(counters, name, 0),
        stream_counters.sender_naks_received(counters, name, 0),
    )
    for counter in (made.publisher_position, made.publisher_limit, made.sender_position, made.sender_limit):
        counter.set(position)
    return made
