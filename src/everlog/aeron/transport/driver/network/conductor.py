"""The conductor's network part: combines publications, subscriptions, images and endpoints, and handles requests of
sender and receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.driver import publication_errors
from everlog.aeron.transport.driver.commands.conductor_proxy import PublicationError
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.images import NetworkImages
from everlog.aeron.transport.driver.network.publications import NetworkPublications
from everlog.aeron.transport.driver.network.receive_endpoints import ReceiveEndpoints
from everlog.aeron.transport.driver.network.send_endpoints import SendEndpoints
from everlog.aeron.transport.driver.network.spies import Spies
from everlog.aeron.transport.driver.network.subscriptions import NetworkSubscriptions
from everlog.aeron.transport.driver.receiver.dispatcher import CreateImage
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.media.context import ACTIVE
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.protocol import commands
from everlog.kernel.socket_address import SocketAddress
from everlog.runtime.tasks import Steps, finished
from everlog.time_units import NS_PER_MS

SPY_PREFIX = "aeron-spy"
Lookup = tuple[int, str, str]
"""A lookup's key: the requesting endpoint's identity, the name, and the channel."""


class NetworkConductor:
    """Implements ``NetworkCommandHandler`` of :mod:`everlog.aeron.transport.driver.conductor.conductor`.

    Requests of sender and receiver that wait for a task are carried out one at a time, in two queues: one for images,
    one for name lookups, because a name server may take long to fail."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._context = parts.context
        self._streams = parts.streams
        self._send_endpoints = SendEndpoints(parts)
        self._receive_endpoints = ReceiveEndpoints(parts)
        self._spies = Spies(parts)
        self._publications = NetworkPublications(parts, self._send_endpoints, self._spies)
        self._images = NetworkImages(parts)
        self._subscriptions = NetworkSubscriptions(parts, self._receive_endpoints, self._images)
        self._images_to_make: list[Iterator[None]] = []
        self._lookups: list[Iterator[None]] = []
        self._looked_up: set[Lookup] = set()
        parts.context.conductor_proxy.target = self

    def handlers(self) -> Mapping[type, Callable[[Any], Iterator[None] | None]]:
        """The handlers of commands that only concern the network."""
        return self._publications.handlers()

    def add_publication(self, command: commands.AddPublication, *, is_exclusive: bool) -> Iterator[None]:
        """Add a publication on an ``aeron:udp`` channel."""
        return self._publications.add(command, is_exclusive=is_exclusive)

    def add_subscription(self, command: commands.AddSubscription) -> Iterator[None]:
        """Add a network subscription or a spy."""
        if command.channel.startswith(SPY_PREFIX):
            return self._spies.add_subscription(command)
        return self._subscriptions.add(command)

    def add_receive_destination(self, command: commands.AddRcvDestination) -> Iterator[None]:
        """Add a network source or a spy to a subscription."""
        if command.channel.startswith(SPY_PREFIX):
            return self._spies.add_destination(command)
        return self._subscriptions.add_destination(command)

    def remove_receive_destination(self, command: commands.RemoveRcvDestination) -> Iterator[None]:
        """Remove a network source from a subscription."""
        return self._subscriptions.remove_destination(command)

    def reject_image(self, command: commands.RejectImage) -> bool:
        """Report the rejection of an image to its sources. Returns whether the image exists."""
        if self._images.find(command.image_correlation_id) is None:
            return False
        self._parts.receiver.reject_image(command.image_correlation_id, command.position, command.reason)
        return True

    def cleanup_subscription_link(self, link: SubscriptionLink) -> None:
        """Clean up a removed subscription."""
        self._subscriptions.cleanup_link(link)

    # Time

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Run one cycle: update positions and limits, and continue requests that wait for a task. Returns the amount of
        work done."""
        work_count = self._images.track(now_ns, now_ms) + self._publications.update_limits()
        for queue in (self._images_to_make, self._lookups):
            if queue:
                work_count += 1
                self._step(queue)
        if self._parts.neighbors is not None:
            work_count += self._parts.neighbors.do_work(now_ns // NS_PER_MS)
        return work_count

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for a task, or the driver resolves names of other drivers."""
        return bool(self._images_to_make or self._lookups) or self._parts.neighbors is not None

    def on_publications_time_event(self, now_ns: int, now_ms: int) -> None:
        """Check the states of all publications, and close those that are done."""
        for publication in list(self._streams.network_publications):
            self._context.errors.guard(publication.on_time_event, now_ns, now_ms, self)
        self._publications.close_ended()

    def on_images_time_event(self, now_ns: int, now_ms: int) -> None:
        """Check the states of all images, and close those that are done."""
        for image in list(self._streams.images):
            self._context.errors.guard(image.on_time_event, now_ns, now_ms, self)
        self._images.close_ended()

    def close(self) -> None:
        """Close all sockets and delete all logs, because the driver stops."""
        self._images_to_make.clear()
        self._lookups.clear()
        if self._parts.neighbors is not None:
            self._parts.neighbors.close()
        self._receive_endpoints.close()
        self._send_endpoints.close()
        self._publications.close()
        self._images.close()

    def _begin(self, queue: list[Iterator[None]], steps: Iterator[None]) -> None:
        queue.append(steps)
        if len(queue) == 1:
            self._step(queue)

    def _step(self, queue: list[Iterator[None]]) -> None:
        try:
            next(queue[0])
        except StopIteration:
            del queue[0]
        except Exception as error:
            del queue[0]
            self._context.errors.record(error)

    # Callbacks of publications and images

    def cleanup_spies(self, publication: NetworkPublication) -> None:
        """Unlink the spies of a publication that is revoked, or that they have read to its end."""
        self._spies.cleanup(publication)

    def cleanup_publication(self, publication: NetworkPublication) -> None:
        """Ask the sender to release a publication."""
        self._publications.cleanup(publication)

    def transition_to_linger(self, image: PublicationImage) -> None:
        """Notify subscriptions that a stream ended."""
        self._images.transition_to_linger(image)

    def cleanup_image(self, image: PublicationImage) -> None:
        """Unlink all subscriptions from an image."""
        self._images.cleanup(image)

    def try_close_receive_channel_endpoint(self, endpoint: Any) -> None:
        """Close an endpoint if nobody uses it any more."""
        self._receive_endpoints.close_if_unused(endpoint)

    def notify_unavailable_image_link(self, resource_id: int, link: Any) -> None:
        """Notify an untethered subscription that it lost the image."""
        self._streams.notices.unavailable(resource_id, link)

    def notify_available_image_link(
        self,
        resource_id: int,
        session_id: int,
        link: Any,
        position_counter_id: int,
        join_position: int,
        log_file_name: str,
        source_identity: str,
    ) -> None:
        """Notify an untethered subscription that it has the image again."""
        self._context.counters.counter(position_counter_id).set_release(join_position)
        image = resource_id, session_id
        self._streams.notices.available(image, link, position_counter_id, log_file_name, source_identity)

    # Requests of sender and receiver

    def on_create_publication_image(self, request: CreateImage) -> None:
        """Create an image, after a setup for a stream that may have subscribers."""
        self._begin(self._images_to_make, self._images.create(request))

    def on_publication_error(self, error: PublicationError) -> None:
        """Report a receiver's rejection of a publication."""
        publication_errors.report(self._context, error)

    def on_response_setup(self, response_correlation_id: int, response_session_id: int) -> None:
        """Set the session id of a subscription's responses."""
        self._subscriptions.on_response_setup(response_correlation_id, response_session_id)

    def on_response_connected(self, response_correlation_id: int) -> None:
        """Handle that a response publication is connected."""
        self._subscriptions.on_response_connected(response_correlation_id)

    def on_receive_channel_endpoint_closed(self, endpoint: Any) -> None:
        """Close an endpoint that the receiver released."""
        self._receive_endpoints.on_closed(endpoint)

    def on_send_channel_endpoint_closed(self, endpoint: Any) -> None:
        """Close an endpoint that the sender released."""
        self._send_endpoints.on_closed(endpoint)

    def on_close_receive_destination(self, transport: Any) -> None:
        """Close a destination that the receiver released; ``None`` if it had none with the channel."""
        self._parts.releases.end()
        if transport is not None:
            transport.close()

    def _look_up(self, asked: Lookup, steps: Iterator[None]) -> None:
        """Start a lookup, unless the same one is running: agents repeat requests every few seconds, and a name server
        may take longer."""
        if asked not in self._looked_up:
            self._looked_up.add(asked)
            self._begin(self._lookups, self._looking_up(asked, steps))

    def _looking_up(self, asked: Lookup, steps: Iterator[None]) -> Iterator[None]:
        try:
            yield from steps
        finally:
            self._looked_up.discard(asked)

    def on_re_resolve_endpoint(self, endpoint_text: str, endpoint: Any, address: SocketAddress | None) -> None:
        """Resolve an endpoint's name again, because nobody answers at its address."""
        self._look_up((id(endpoint), endpoint_text, ""), self._re_resolve_endpoint(endpoint_text, endpoint, address))

    def _re_resolve_endpoint(self, text: str, endpoint: Any, address: SocketAddress | None) -> Steps[None]:
        if _is_active(endpoint):
            new_address = yield from finished(self._parts.channels.resolve_again(text, "endpoint"))
            if new_address is None:
                self._context.errors.record(AeronEvent(f"could not re-resolve: endpoint={text}"))
            elif _is_active(endpoint) and new_address != address:
                self._parts.sender.on_resolution_change(endpoint, text, new_address)

    def on_re_resolve_control(
        self, control_text: str, channel: UdpChannel, endpoint: Any, address: SocketAddress | None
    ) -> None:
        """Resolve a control's name again, because nothing arrives from its address."""
        asked = id(endpoint), control_text, channel.canonical_form
        self._look_up(asked, self._re_resolve_control(control_text, channel, endpoint, address))

    def _re_resolve_control(
        self, text: str, channel: UdpChannel, endpoint: Any, address: SocketAddress | None
    ) -> Steps[None]:
        if _is_active(endpoint):
            new_address = yield from finished(self._parts.channels.resolve_again(text, "control"))
            if new_address is None:
                self._context.errors.record(AeronEvent(f"could not re-resolve: control={text}"))
            elif _is_active(endpoint) and new_address != address:
                self._parts.receiver.on_resolution_change(endpoint, channel, new_address)


def _is_active(endpoint: Any) -> bool:
    return not endpoint.status_indicator.is_closed and endpoint.status == ACTIVE
