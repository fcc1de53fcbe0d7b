"""What clients of one machine have of a publication's log: its publishers, and those that read it where it is written.
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
    """A publication in shared memory or over the network."""

    @property
    def registration_id(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    @property
    def publisher_limit_id(self) -> int: ...
    @property
    def log(self) -> DriverLog: ...


class ReadPublication(LocalPublication, Subscribable, Protocol):
    """One that subscribers read in its log."""

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
    """A client publishes on it, and is told so. ``status_id``: the counter of its channel's state."""
    publication.inc_ref()
    try:
        streams.link_publication(command.client_id, command.correlation_id, publication, context.now_ms)
    finally:
        # A new one that nobody holds, because there is no counter left for its client, ends here.
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
    """A subscription reads it from ``join_position`` on, and its client is told of the image."""
    name = StreamName(link.client.client_id, link.registration_id, publication.session_id, link.stream_id, link.channel)
    position = stream_counters.subscriber_position(context.counters, name, context.now_ms, join_position=join_position)
    context.counters.set_reference_id(position.id, publication.registration_id)
    link.link(publication, publication.registration_id, position)
    publication.add_subscriber(link, position, context.now_ns)
    image = publication.registration_id, publication.session_id
    streams.notices.available(image, link, position.id, publication.log.name, IPC_CHANNEL)
