"""IPC publications and subscriptions: creates, finds, links and closes them. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands import uri_syntax
from everlog.aeron.transport.driver.commands.client_proxy import IPC_CHANNEL
from everlog.aeron.transport.driver.commands.command_errors import unknown_subscription
from everlog.aeron.transport.driver.commands.publication_logs import publication_log
from everlog.aeron.transport.driver.commands.publication_params import (
    ExistingPublications,
    PublicationParams,
    confirm_match,
    publication_params,
)
from everlog.aeron.transport.driver.commands.sessions import IPC_MEDIA
from everlog.aeron.transport.driver.commands.subscription_params import subscription_params
from everlog.aeron.transport.driver.conductor.local_streams import link_publisher, link_reader
from everlog.aeron.transport.driver.conductor.streams import Streams
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.ipc import limits as ipc_limits
from everlog.aeron.transport.driver.ipc.publication import IpcCounters, IpcParameters, IpcPublication
from everlog.aeron.transport.driver.links import IpcSubscriptionLink, SubscriptionLink
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.stream_counters import NO_STATUS, StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import commands
from everlog.runtime.tasks import Steps, finished

LOOKS_AT_LIMITS = 400
"""How many times in a row to check publications with short windows after a limit moved: about ten microseconds."""


class IpcStreams:
    """Handles ``aeron:ipc`` channels."""

    def __init__(self, context: DriverContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams
        self._limits: list[ipc_limits.IpcLimits] = []

    def update_limits(self) -> int:
        """Update the limits of all publications. Returns how many moved."""
        return ipc_limits.update_all(self._limits, LOOKS_AT_LIMITS)

    def find(self, registration_id: int) -> IpcPublication | None:
        """Find a publication by its id."""
        for publication in self._streams.ipc_publications:
            if publication.registration_id == registration_id:
                return publication
        return None

    # Publications

    def add_publication(self, command: commands.AddPublication, *, is_exclusive: bool) -> Steps[None]:
        """Create a publication, or share an existing one."""
        streams, context = self._streams, self._context
        uri = uri_syntax.parse(command.channel)
        there = ExistingPublications(
            streams.sessions, streams.ipc_publications, streams.network_publications, context.random
        )
        params = publication_params(uri, context.configuration, command.stream_id, IPC_MEDIA, there)
        shared = None if is_exclusive else self._find_shared(command.stream_id, params.response_correlation_id)
        if shared is not None:
            confirm_match(uri, params, shared)
            self._link_publication(command, shared, is_exclusive)
            return
        streams.sessions.check_for_clash(params.session_id, command.stream_id, IPC_MEDIA, command.channel)
        parameters = publication_log(params, command.correlation_id, context.system_sockets, is_exclusive=is_exclusive)
        make_log = context.log_factory.new_publication
        task = context.tasks.submit(lambda: make_log(parameters, is_sparse=params.is_sparse))
        log = yield from finished(task)
        publication = self._new_publication(command, is_exclusive, params, log)
        self._link_publication(command, publication, is_exclusive)
        self.link_ipc_subscriptions(publication)

    def _find_shared(self, stream_id: int, response_correlation_id: int) -> IpcPublication | None:
        for publication in self._streams.ipc_publications:
            is_same = publication.stream_id == stream_id and not publication.is_exclusive and publication.is_active
            if is_same and publication.response_correlation_id == response_correlation_id:
                return publication
        return None

    def _new_publication(
        self, command: commands.AddPublication, is_exclusive: bool, params: PublicationParams, log: DriverLog
    ) -> IpcPublication:
        context, streams = self._context, self._streams
        opened: list[AtomicCounter] = []
        try:
            parameters = IpcParameters(
                registration_id=command.correlation_id,
                channel=command.channel,
                is_exclusive=is_exclusive,
                params=params,
                log=log,
                counters=self._counters(command, is_exclusive, params, opened),
                unblock_timeout_ns=context.configuration.publication_unblock_timeout_ns,
                image_liveness_timeout_ns=context.configuration.image_liveness_timeout_ns,
            )
            publication = IpcPublication(parameters, self, context.now_ns)
        except BaseException:
            for counter in opened:
                counter.close()
            streams.freed_logs.add(log)
            raise
        self._update_response_subscription(params, publication)
        streams.ipc_publications.append(publication)
        self._limits.append(publication.limits)
        streams.sessions.add(params.session_id, command.stream_id, IPC_MEDIA)
        return publication

    def _counters(
        self,
        command: commands.AddPublication,
        is_exclusive: bool,
        params: PublicationParams,
        opened: list[AtomicCounter],
    ) -> IpcCounters:
        """Allocate the counters. Each is appended to ``opened``, so that the caller can close them after an error."""
        context, now_ms = self._context, self._context.now_ms
        name = StreamName(
            command.client_id, command.correlation_id, params.session_id, command.stream_id, command.channel
        )
        counters = context.counters
        opened.append(stream_counters.publisher_position(counters, name, now_ms, is_exclusive=is_exclusive))
        opened.append(stream_counters.publisher_limit(counters, name, now_ms))
        if params.has_position:
            for counter in opened:
                counter.set_release(params.position)
        system = context.system_counters
        unblocked, revoked = SystemCounter.UNBLOCKED_PUBLICATIONS, SystemCounter.PUBLICATIONS_REVOKED
        return IpcCounters(opened[0], opened[1], system[unblocked], system[revoked])

    def _link_publication(
        self, command: commands.AddPublication, publication: IpcPublication, is_exclusive: bool
    ) -> None:
        link_publisher(
            self._context, self._streams, command, publication, is_exclusive=is_exclusive, status_id=NO_STATUS
        )

    def _update_response_subscription(self, params: PublicationParams, publication: IpcPublication) -> None:
        """For a response publication, set the session id of the subscription that waits for responses."""
        if params.response_correlation_id == NULL_VALUE:
            return
        asked = self.find(params.response_correlation_id)
        if asked is None:
            return
        for link in self._streams.subscription_links:
            if link.registration_id == asked.response_correlation_id and isinstance(link, IpcSubscriptionLink):
                link.session_id = publication.session_id
                break

    # Subscriptions

    def add_subscription(self, command: commands.AddSubscription) -> None:
        """Create a subscription, with an image of each matching publication."""
        context = self._context
        params = subscription_params(uri_syntax.parse(command.channel), context.configuration)
        client = self._streams.clients.get_or_add(command.client_id, context.now_ms)
        link = IpcSubscriptionLink(command.correlation_id, command.stream_id, command.channel, client, params)
        self._streams.subscription_links.append(link)
        context.client_proxy.on_subscription_ready(command.correlation_id, NO_STATUS)
        self._link_subscription(link)

    def add_destination(self, command: commands.AddRcvDestination) -> None:
        """Add an IPC source to a multi-destination subscription."""
        params = subscription_params(uri_syntax.parse(command.channel), self._context.configuration)
        registration_id = command.registration_correlation_id
        owner = self._streams.destination_link(registration_id)
        if owner is None:
            raise unknown_subscription(registration_id, "MDS")
        link = IpcSubscriptionLink(registration_id, owner.stream_id, command.channel, owner.client, params)
        self._streams.subscription_links.append(link)
        self._context.client_proxy.operation_succeeded(command.correlation_id)
        self._link_subscription(link)

    def _link_subscription(self, link: IpcSubscriptionLink) -> None:
        for publication in self._streams.ipc_publications:
            if link.matches(publication.stream_id, publication.session_id) and publication.is_accepting_subscriptions:
                self._link(publication, link)

    def link_ipc_subscriptions(self, publication: IpcPublication) -> None:
        """Link all matching subscriptions that don't read the publication yet."""
        for link in list(self._streams.subscription_links):
            if not isinstance(link, IpcSubscriptionLink) or link.is_linked(publication):
                continue
            if link.matches(publication.stream_id, publication.session_id) and publication.is_accepting_subscriptions:
                self._link(publication, link)

    def _link(self, publication: IpcPublication, link: IpcSubscriptionLink) -> None:
        link_reader(self._context, self._streams, publication, link, publication.limits.join_position())

    # Callbacks of publications

    def unlink_ipc_subscriptions(self, publication: IpcPublication) -> None:
        """Notify and unlink all subscriptions immediately."""
        self._notify_unavailable(publication)
        self.cleanup_ipc_publication(publication)

    def transition_to_linger(self, publication: IpcPublication) -> None:
        """Free the session of a stream that ended, and notify its subscriptions, which may still read what they have
        mapped."""
        self._streams.sessions.remove(publication.session_id, publication.stream_id, IPC_MEDIA)
        self._notify_unavailable(publication)

    def cleanup_ipc_publication(self, publication: IpcPublication) -> None:
        """Unlink all subscriptions from the publication."""
        for link in self._streams.subscription_links:
            link.unlink(publication)

    def image_unavailable(self, publication: IpcPublication, link: SubscriptionLink) -> None:
        """Notify an untethered subscription that it lost the image."""
        self._streams.notices.unavailable(publication.registration_id, link)

    def image_available_again(self, publication: IpcPublication, link: SubscriptionLink, position_id: int) -> None:
        """Notify an untethered subscription that it has the image again."""
        image = publication.registration_id, publication.session_id
        self._streams.notices.available(image, link, position_id, publication.log.name, IPC_CHANNEL)

    def _notify_unavailable(self, publication: IpcPublication) -> None:
        for link in self._streams.subscription_links:
            if link.is_linked(publication):
                self._streams.notices.unavailable(publication.registration_id, link)

    # Time

    def on_time_event(self, now_ns: int) -> None:
        """Check the states of all publications, and close those that are done."""
        publications = self._streams.ipc_publications
        for publication in list(publications):
            self._context.errors.guard(publication.on_time_event, now_ns)
            if publication.has_reached_end_of_life:
                publications.remove(publication)
                self._limits.remove(publication.limits)
                self._context.errors.guard(publication.close)
                self._streams.freed_logs.add(publication.log)

    def close(self) -> None:
        """Delete all logs, because the driver stops."""
        for publication in self._streams.ipc_publications:
            self._streams.freed_logs.add(publication.log)
        self._limits.clear()
