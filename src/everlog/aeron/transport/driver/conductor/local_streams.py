"""Links a publication's log with its local clients: publishers, and subscribers that read the log directly.
Source: DriverConductor."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.client_proxy import IPC_CHANNEL
from everlog.aeron.transport.driver.conductor.streams import Streams
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.links import Countable, Subscribable, SubscriptionLink
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import commands


class LocalPublication(Countable, Protocol):
    """An IPC or a network publication."""

    @property
    def registration_id(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    @property
    def publisher_limit_id(self) -> int: ...
    @property
    def log(self) -> DriverLog: ...


class ReadPublication(LocalPublication, Subscribable, Protocol):
    """A publication whose log local subscribers read."""

    def add_subscriber(self, link: SubscriptionLink, position: AtomicCounter, now_ns: int) -> None: ...


def link_publisher(
    context: DriverContext,
    streams: Streams,
    command: commands.AddPublication,
    publication: LocalPublication,
    *,
    is_exclusive: bool,
    status_id: int,
) -> None:
    """Link a client to a publication, and notify it. ``status_id`` is the id of the channel's status counter."""
    publication.inc_ref()
    try:
        streams.link_publication(command.client_id, command.correlation_id, publication, context.now_ms)
    finally:
        # A new publication ends here if it could not be linked, because no counter was left for its client.
        publication.dec_ref()
    event = commands.OnExclusivePublicationReady if is_exclusive else commands.OnPublicationReady
    context.client_proxy.transmit(
        event(
            command.correlation_id,
            publication.registration_id,
            publication.session_id,
            command.stream_id,
            publication.publisher_limit_id,
            status_id,
            publication.log.name,
        )
    )


def link_reader(
    context: DriverContext, streams: Streams, publication: ReadPublication, link: SubscriptionLink, join_position: int
) -> None:
    """Link a subscription to a publication from ``join_position`` on, and notify its client of the image."""
    name = StreamName(link.client.client_id, link.registration_id, publication.session_id, link.stream_id, link.channel)
    position = stream_counters.subscriber_position(context.counters, name, context.now_ms, join_position=join_position)
    context.counters.set_reference_id(position.id, publication.registration_id)
    link.link(publication, publication.registration_id, position)
    publication.add_subscriber(link, position, context.now_ns)
    image = publication.registration_id, publication.session_id
    streams.notices.available(image, link, position.id, publication.log.name, IPC_CHANNEL)
