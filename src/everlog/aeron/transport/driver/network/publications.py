"""Network publications: creates, finds, shares and closes them. Source: DriverConductor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.frames.constants import MIN_TERM_LENGTH
from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands import uri_values
from everlog.aeron.transport.driver.commands.command_errors import as_refused, generic, illegal_argument, illegal_state
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths, publication_log
from everlog.aeron.transport.driver.commands.publication_params import (
    ExistingPublications,
    PublicationParams,
    confirm_match,
    publication_params,
)
from everlog.aeron.transport.driver.conductor.local_streams import link_publisher
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.network import channel_rules
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.send_endpoints import SendEndpoints
from everlog.aeron.transport.driver.network.spies import Spies
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.sender.flow_control import (
    FlowControl,
    FlowControlSettings,
    MinFlowControl,
    flow_control_for,
)
from everlog.aeron.transport.driver.sender.network_parameters import NetworkPublicationParameters, PublicationCounters
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.driver.sender.retransmit import RetransmitHandler, RetransmitSettings
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.media.send_channel_endpoint import SendChannelEndpoint
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import commands
from everlog.runtime.tasks import Steps, finished


class NetworkPublications:
    """Handles publications on ``aeron:udp`` channels."""

    def __init__(self, parts: NetworkContext, endpoints: SendEndpoints, spies: Spies) -> None:
        self._parts = parts
        self._context = parts.context
        self._streams = parts.streams
        self._endpoints = endpoints
        self._spies = spies

    def handlers(self) -> Mapping[type, Callable[[Any], Iterator[None] | None]]:
        """The handlers of the commands for destinations."""
        return {
            commands.AddDestination: self.add_destination,
            commands.RemoveDestination: self.remove_destination,
            commands.RemoveDestinationById: self.remove_destination_by_id,
        }

    def update_limits(self) -> int:
        """Update the limits of all publications; an error of one does not stop the others. Returns how many moved."""
        moved = 0
        for publication in self._streams.network_publications:
            try:
                moved += publication.update_publisher_position_and_limit()
            except Exception as error:
                self._context.errors.record(error)
        return moved

    # Adding

    def add(self, command: commands.AddPublication, *, is_exclusive: bool) -> Steps[None]:
        """Create a publication, or share an existing one."""
        channel = yield from finished(self._parts.channels.parse(command.channel))
        yield from self._parts.releases.finish(self._context)
        params = self._params(command, channel)
        endpoint = self._endpoints.find(channel)
        shared = None
        if endpoint is not None:
            self._endpoints.check(params, channel, endpoint)
            if not is_exclusive:
                shared = self._find_shared(command.stream_id, endpoint, params.response_correlation_id)
        if shared is not None:
            self._check_shared(params, channel, shared)
            image = self._response_image(params)
            self._link(command, shared, is_exclusive)
        else:
            # By its tag, a channel may refer to an endpoint with another canonical form.
            form = (channel if endpoint is None else endpoint.udp_channel).canonical_form
            self._streams.sessions.check_for_clash(params.session_id, command.stream_id, form, command.channel)
            log = yield from self._log(command, params, channel, endpoint, is_exclusive)
            try:
                yield from self._parts.releases.finish(self._context)
                image = self._response_image(params)
                publication = self._new(command, channel, params, log, is_exclusive)
            except BaseException:
                self._streams.freed_logs.add(log)
                raise
            self._link(command, publication, is_exclusive)
            self._spies.link_publication(publication)
            shared = publication
        if image is not None:
            image.set_response_session_id(shared.session_id)
            image.request_next_sm_deadline_reset()

    def _params(self, command: commands.AddPublication, channel: UdpChannel) -> PublicationParams:
        streams = self._streams
        there = ExistingPublications(
            streams.sessions, streams.network_publications, streams.ipc_publications, self._context.random
        )
        configuration = self._context.configuration
        params = publication_params(channel.uri, configuration, command.stream_id, channel.canonical_form, there)
        channel_rules.check_publication_channel(channel)
        self._check_response_subscription(params)
        return params

    def _check_response_subscription(self, params: PublicationParams) -> None:
        wanted = params.response_correlation_id
        if params.is_response or wanted == NULL_VALUE:
            return
        if not any(link.registration_id == wanted for link in self._streams.subscription_links):
            raise illegal_argument(f"unable to find response subscription for response-correlation-id={wanted}")

    def _find_shared(
        self, stream_id: int, endpoint: SendChannelEndpoint, response_correlation_id: int
    ) -> NetworkPublication | None:
        for publication in self._streams.network_publications:
            is_same = publication.stream_id == stream_id and publication.channel_endpoint is endpoint
            is_shared = publication.is_active and not publication.is_exclusive
            if is_same and is_shared and publication.response_correlation_id == response_correlation_id:
                return publication
        return None

    def _check_shared(self, params: PublicationParams, channel: UdpChannel, existing: NetworkPublication) -> None:
        confirm_match(channel.uri, params, existing)
        if params.spies_simulate_connection != existing.spies_simulate_connection:
            there, asked = existing.spies_simulate_connection, params.spies_simulate_connection
            raise illegal_state(
                "existing publication has different spiesSimulateConnection:"
                f" existing={str(there).lower()} requested={str(asked).lower()}"
                f" existingChannel={existing.channel} channel={channel.original_uri}"
            )

    def _response_image(self, params: PublicationParams) -> PublicationImage | None:
        """The image whose publisher gets its responses from this publication."""
        if not params.is_response:
            return None
        wanted = params.response_correlation_id
        if wanted == NULL_VALUE:
            raise illegal_argument("control-mode=response was specified, but no response-correlation-id set")
        if wanted == uri_values.PROTOTYPE_CORRELATION_ID:
            return None
        for image in self._streams.images:
            if image.correlation_id == wanted:
                if image.has_send_response_setup:
                    return image
                raise illegal_argument(f"image.correlationId={wanted} did not request a response channel")
        raise illegal_argument(f"image.correlationId={wanted} not found")

    def _log(
        self,
        command: commands.AddPublication,
        params: PublicationParams,
        channel: UdpChannel,
        endpoint: SendChannelEndpoint | None,
        is_exclusive: bool,
    ) -> Steps[DriverLog]:
        if params.is_response and params.response_correlation_id == uri_values.PROTOTYPE_CORRELATION_ID:
            params.term_length = MIN_TERM_LENGTH
        system, configuration = self._context.system_sockets, self._context.configuration
        lengths = endpoint or channel
        sockets = SocketLengths(
            lengths.socket_sndbuf_length or configuration.socket_sndbuf_length,
            system.default_sndbuf,
            system.max_sndbuf,
            lengths.socket_rcvbuf_length or configuration.socket_rcvbuf_length,
            system.default_rcvbuf,
            system.max_rcvbuf,
        )
        parameters = publication_log(
            params,
            command.correlation_id,
            sockets,
            is_exclusive=is_exclusive,
            is_group=channel.has_group_semantics,
        )
        make_log = self._context.log_factory.new_publication
        task = self._context.tasks.submit(lambda: make_log(parameters, is_sparse=params.is_sparse))
        log: DriverLog = yield from finished(task)
        return log

    def _new(
        self,
        command: commands.AddPublication,
        channel: UdpChannel,
        params: PublicationParams,
        log: DriverLog,
        is_exclusive: bool,
    ) -> NetworkPublication:
        context, configuration, streams = self._context, self._context.configuration, self._streams
        endpoint = self._endpoints.get_or_create(params, channel, command.correlation_id)
        name = StreamName(
            command.client_id, command.correlation_id, params.session_id, command.stream_id, command.channel
        )
        opened: list[AtomicCounter] = []
        try:
            flow_control = self._flow_control(channel, name, opened)
            counters = self._counters(name, params, is_exclusive, opened)
        except BaseException:
            for counter in opened:
                counter.close()
            self._endpoints.close_if_unused(endpoint)
            raise
        endpoint.inc_ref()
        publication = NetworkPublication(
            NetworkPublicationParameters(
                registration_id=command.correlation_id,
                params=params,
                channel_endpoint=endpoint,
                log=log,
                conductor_proxy=context.conductor_proxy,
                flow_control=flow_control,
                retransmit=self._retransmit(channel, params),
                counters=counters,
                system=context.system_counters,
                now_ns=context.now_ns,
                is_exclusive=is_exclusive,
                unblock_timeout_ns=configuration.publication_unblock_timeout_ns,
                connection_timeout_ns=configuration.publication_connection_timeout_ns,
            )
        )
        streams.network_publications.append(publication)
        streams.sessions.add(params.session_id, command.stream_id, endpoint.udp_channel.canonical_form)
        self._parts.sender.new_network_publication(publication)
        return publication

    def _retransmit(self, channel: UdpChannel, params: PublicationParams) -> RetransmitHandler:
        configuration = self._context.configuration
        settings = RetransmitSettings(
            delay_ns=configuration.retransmit_unicast_delay_ns,
            linger_ns=configuration.retransmit_unicast_linger_ns,
            has_group_semantics=channel.has_group_semantics,
            max_retransmits=params.max_resend,
        )
        return RetransmitHandler(settings, self._context.system_counters[SystemCounter.RETRANSMIT_OVERFLOW])

    def _flow_control(self, channel: UdpChannel, name: StreamName, opened: list[AtomicCounter]) -> FlowControl:
        configuration = self._context.configuration
        settings = FlowControlSettings(
            multicast=configuration.multicast_flow_control,
            receiver_timeout_ns=configuration.flow_control_receiver_timeout_ns,
            group_tag=configuration.flow_control_group_tag,
            group_min_size=configuration.flow_control_group_min_size,
            unicast_window_multiple=configuration.unicast_flow_control_rrwm,
            multicast_window_multiple=configuration.multicast_flow_control_rrwm,
        )
        has_many = channel.is_multicast or channel.is_multi_destination
        try:
            flow_control = flow_control_for(channel.uri, settings, has_many_receivers=has_many)
        except InvalidChannel as error:
            raise (as_refused(error) if error.java is None else generic(error.java)) from error
        if isinstance(flow_control, MinFlowControl):
            counters, now_ms = self._context.counters, self._context.now_ms
            opened.append(stream_counters.flow_control_receivers(counters, replace(name, client_id=NULL_VALUE), now_ms))
            flow_control.receiver_counter = opened[-1]
        return flow_control

    def _counters(
        self, name: StreamName, params: PublicationParams, is_exclusive: bool, opened: list[AtomicCounter]
    ) -> PublicationCounters:
        """Allocate the counters. Each is appended to ``opened``, so that the caller can close them after an error."""
        counters, now_ms = self._context.counters, self._context.now_ms
        first = len(opened)
        opened.append(stream_counters.publisher_position(counters, name, now_ms, is_exclusive=is_exclusive))
        opened.append(stream_counters.publisher_limit(counters, name, now_ms))
        opened.append(stream_counters.sender_position(counters, name, now_ms))
        opened.append(stream_counters.sender_limit(counters, name, now_ms))
        if params.has_position:
            for counter in opened[first:]:
                counter.set_release(params.position)
        opened.append(stream_counters.sender_bpe(counters, name, now_ms))
        opened.append(stream_counters.sender_naks_received(counters, name, now_ms))
        return PublicationCounters(*opened[first:])

    def _link(self, command: commands.AddPublication, publication: NetworkPublication, is_exclusive: bool) -> None:
        status_id = self._endpoints.of(publication.channel_endpoint).status_indicator_counter_id
        link_publisher(
            self._context, self._streams, command, publication, is_exclusive=is_exclusive, status_id=status_id
        )

    # Destinations

    def add_destination(self, command: commands.AddDestination) -> Steps[None]:
        """Add a destination to a publication."""
        registration_id, text = command.registration_correlation_id, command.channel
        uri = self._parts.channels.uri(text)
        channel_rules.check_destination(uri, text)
        channel_rules.check_send_destination(uri, text)
        self._endpoints.find_for_destinations(registration_id)
        address = yield from finished(self._parts.channels.destination(uri))
        endpoint = self._endpoints.find_for_destinations(registration_id)
        self._parts.sender.add_destination(endpoint, uri, address, command.correlation_id)
        self._context.client_proxy.operation_succeeded(command.correlation_id)

    def remove_destination(self, command: commands.RemoveDestination) -> Steps[None]:
        """Remove a destination from a publication."""
        registration_id = command.registration_correlation_id
        uri = self._parts.channels.uri(command.channel)
        self._endpoints.find_for_destinations(registration_id)
        address = yield from finished(self._parts.channels.destination(uri))
        endpoint = self._endpoints.find_for_destinations(registration_id)
        if address is not None:
            self._parts.sender.remove_destination(endpoint, address)
        self._context.client_proxy.operation_succeeded(command.correlation_id)

    def remove_destination_by_id(self, command: commands.RemoveDestinationById) -> None:
        """Remove a destination from a publication."""
        endpoint = self._endpoints.find_for_destinations(command.resource_registration_id)
        self._parts.sender.remove_destination_by_id(endpoint, command.destination_registration_id)
        self._context.client_proxy.operation_succeeded(command.correlation_id)

    # The end

    def cleanup(self, publication: NetworkPublication) -> None:
        """Ask the sender to release a publication, and its endpoint if nobody else uses that."""
        endpoint = self._endpoints.of(publication.channel_endpoint)
        self._parts.sender.remove_network_publication(publication)
        self._endpoints.close_if_unused(endpoint)
        form = endpoint.udp_channel.canonical_form
        self._streams.sessions.remove(publication.session_id, publication.stream_id, form)

    def close_ended(self) -> None:
        """Close all publications that the sender has released."""
        publications = self._streams.network_publications
        for publication in [publication for publication in publications if publication.has_reached_end_of_life]:
            publications.remove(publication)
            for link in self._streams.subscription_links:
                link.unlink(publication)  # a resting spy still refers to it, and so to its memory
            self._context.errors.guard(publication.close)
            self._streams.freed_logs.add(publication.log)

    def close(self) -> None:
        """Delete all logs, because the driver stops."""
        for publication in self._streams.network_publications:
            self._streams.freed_logs.add(publication.log)
