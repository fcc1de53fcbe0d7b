"""Images of network streams: creates them, links them to subscriptions, and closes them. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands import uri_values
from everlog.aeron.transport.driver.commands.command_errors import configuration_error
from everlog.aeron.transport.driver.commands.subscription_params import subscription_params
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.image_making import ImageMaker, Interest, NewImage
from everlog.aeron.transport.driver.network.links import NetworkSubscriptionLink
from everlog.aeron.transport.driver.network.receive_endpoints import receive_endpoint
from everlog.aeron.transport.driver.receiver.dispatcher import CreateImage
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.image_exchange import ImageState
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.media.context import ACTIVE
from everlog.runtime.tasks import Steps, finished


class NetworkImages:
    """Handles images on the conductor."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._context = parts.context
        self._streams = parts.streams
        self._maker = ImageMaker(parts)

    def track(self, now_ns: int, now_ms: int) -> int:
        """Run one cycle of all images; an error of one does not stop the others. Returns how many status messages are
        due."""
        due = 0
        for image in self._streams.images:
            try:
                due += image.track_rebuild(now_ns, now_ms)
            except Exception as error:
                self._context.errors.record(error)
        return due

    # Adding

    def create(self, request: CreateImage) -> Steps[None]:
        """Create an image, after a setup for a stream that may have subscribers."""
        try:
            is_made = yield from self._create(request)
        except BaseException:
            self._forget(request)
            raise
        if not is_made:
            self._forget(request)

    def _create(self, request: CreateImage) -> Steps[bool]:
        endpoint = receive_endpoint(request.channel_endpoint)
        uri_values.check_mtu_length(request.mtu_length)
        uri_values.check_term_length(request.term_length)
        uri, configuration = endpoint.udp_channel.uri, self._context.configuration
        params = subscription_params(uri, configuration, publisher_term_length=request.term_length)
        if request.mtu_length > params.receiver_window_length:
            text = f"mtuLength={request.mtu_length} > initialWindowLength={params.receiver_window_length}"
            raise configuration_error(text)
        interest = self._interest(endpoint, request)
        if interest is None:
            return False
        correlation_id = self._context.to_driver.next_correlation_id()
        new = NewImage(correlation_id, request, endpoint, params, interest)
        make_log, parameters = self._context.log_factory.new_image, self._maker.log_parameters(new)
        is_sparse = interest.is_sparse
        log = yield from finished(self._context.tasks.submit(lambda: make_log(parameters, is_sparse=is_sparse)))
        try:
            # Subscriptions may have changed since the task started.
            interest = self._interest(endpoint, request)
            if interest is None:
                self._streams.freed_logs.add(log)
                return False
            new = NewImage(correlation_id, request, endpoint, params, interest)
            image, subscriptions = self._maker.make(new, log)
        except BaseException:
            self._streams.freed_logs.add(log)
            raise
        endpoint.inc_ref_images()
        self._streams.images.append(image)
        self._parts.receiver.new_publication_image(endpoint, image)
        for link, position in subscriptions:
            link.link(image, image.correlation_id, position)
            self._context.counters.set_reference_id(position.id, image.correlation_id)
            self._notify_available(image, link, position.id)
        return True

    def _forget(self, request: CreateImage) -> None:
        endpoint = request.channel_endpoint
        self._parts.receiver.remove_init_in_progress(endpoint, request.session_id, request.stream_id)

    def _interest(self, endpoint: ReceiveEndpoint, request: CreateImage) -> Interest | None:
        if endpoint.status_indicator.is_closed or endpoint.status != ACTIVE or self._exists(endpoint, request):
            return None
        links = [
            link
            for link in self._streams.subscription_links
            if isinstance(link, NetworkSubscriptionLink)
            and link.endpoint is endpoint
            and link.matches_stream(request.stream_id, request.session_id)
        ]
        return Interest.of(links, endpoint.udp_channel, request.flags)

    def _exists(self, endpoint: ReceiveEndpoint, request: CreateImage) -> bool:
        """Whether the session already has an image that takes data. The receiver requests another one if a subscription
        is removed and added again while an image is created."""
        return any(
            (image.stream_id, image.session_id) == (request.stream_id, request.session_id)
            and image.channel_endpoint is endpoint
            and image.state in (ImageState.INIT, ImageState.ACTIVE)
            for image in self._streams.images
        )

    def _notify_available(self, image: PublicationImage, link: SubscriptionLink, position_id: int) -> None:
        ids = image.correlation_id, image.session_id
        self._streams.notices.available(ids, link, position_id, image.log.name, image.source_identity)

    def link_subscription(self, link: NetworkSubscriptionLink) -> None:
        """Link a new subscription to all matching images."""
        context = self._context
        for image in self._streams.images:
            if not image.is_accepting_subscriptions or not link.matches_image(image):
                continue
            join_position = image.join_position()
            client_id = link.client.client_id
            name = StreamName(client_id, link.registration_id, image.session_id, link.stream_id, link.channel)
            position = stream_counters.subscriber_position(
                context.counters, name, context.now_ms, join_position=join_position
            )
            context.counters.set_reference_id(position.id, image.correlation_id)
            link.link(image, image.correlation_id, position)
            image.add_subscriber(link, position, context.now_ns)
            self._notify_available(image, link, position.id)

    # The end

    def find(self, correlation_id: int) -> PublicationImage | None:
        """Find an image by its correlation id."""
        for image in self._streams.images:
            if image.correlation_id == correlation_id:
                return image
        return None

    def transition_to_linger(self, image: PublicationImage) -> None:
        """Notify subscriptions that a stream ended; they may still read what they have mapped. Unless they rejoin, the
        session stays on its cool-down."""
        is_rejoin = True
        for link in self._streams.subscription_links:
            if link.is_linked(image):
                is_rejoin = link.is_rejoin
                self._streams.notices.unavailable(image.correlation_id, link)
        if is_rejoin:
            endpoint = receive_endpoint(image.channel_endpoint)
            self._parts.receiver.remove_cool_down(endpoint, image.session_id, image.stream_id)

    def cleanup(self, image: PublicationImage) -> None:
        """Unlink all subscriptions from an image."""
        for link in self._streams.subscription_links:
            link.unlink(image)

    def close_ended(self) -> None:
        """Close all images that the receiver has released."""
        images = self._streams.images
        for image in [image for image in images if image.has_reached_end_of_life]:
            images.remove(image)
            self._context.errors.guard(image.close)
            self._streams.freed_logs.add(image.log)

    def close(self) -> None:
        """Delete all logs, because the driver stops."""
        for image in self._streams.images:
            self._streams.freed_logs.add(image.log)
