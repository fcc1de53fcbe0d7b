"""The conductor's commands to the receiver. Source: ReceiverProxy."""

from __future__ import annotations

from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.receiver.receiver import Receiver
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.kernel.udp import SocketAddress
from everlog.runtime.agent_commands import AgentProxy


class ReceiverProxy(AgentProxy[Receiver]):
    """Sends commands to the receiver, through a queue or directly."""

    def add_subscription(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None = None) -> None:
        """Receive a stream, or one session of it."""
        self._ask(lambda receiver, now_ns: receiver.on_add_subscription(endpoint, stream_id, session_id, now_ns))

    def remove_subscription(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None = None) -> None:
        """Stop receiving a stream, or one session of it."""
        self._ask(lambda receiver, now_ns: receiver.on_remove_subscription(endpoint, stream_id, session_id, now_ns))

    def request_setup(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int) -> None:
        """Request a session's setup from the channel's control address."""
        self._ask(lambda receiver, now_ns: receiver.on_request_setup(endpoint, stream_id, session_id, now_ns))

    def new_publication_image(self, endpoint: ReceiveEndpoint, image: PublicationImage) -> None:
        """Write a session's data into a new image."""
        self._ask(lambda receiver, now_ns: receiver.on_new_publication_image(endpoint, image, now_ns))

    def register_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Poll an endpoint's socket."""
        self._ask(lambda receiver, now_ns: receiver.on_register_receive_channel_endpoint(endpoint, now_ns))

    def close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Stop polling an endpoint, so that it can be closed."""
        self._ask(lambda receiver, now_ns: receiver.on_close_receive_channel_endpoint(endpoint, now_ns))

    def remove_cool_down(self, endpoint: ReceiveEndpoint, session_id: int, stream_id: int) -> None:
        """End a session's cool-down, so that it can have an image again."""
        self._ask(lambda receiver, now_ns: endpoint.dispatcher.remove_cool_down(stream_id, session_id))

    def remove_init_in_progress(self, endpoint: ReceiveEndpoint, session_id: int, stream_id: int) -> None:
        """Forget that an image was being created, because none was."""
        self._ask(lambda receiver, now_ns: endpoint.dispatcher.remove_init_in_progress(stream_id, session_id))

    def add_destination(self, endpoint: ReceiveEndpoint, transport: ReceiveDestinationTransport) -> None:
        """Poll another transport of the channel."""
        self._ask(lambda receiver, now_ns: receiver.on_add_destination(endpoint, transport, now_ns))

    def remove_destination(self, endpoint: ReceiveEndpoint, channel: UdpChannel) -> None:
        """Stop polling a transport, so that it can be closed."""
        self._ask(lambda receiver, now_ns: receiver.on_remove_destination(endpoint, channel, now_ns))

    def on_resolution_change(self, endpoint: ReceiveEndpoint, channel: UdpChannel, new_address: SocketAddress) -> None:
        """Use the new address of a control."""
        self._ask(lambda receiver, now_ns: receiver.on_resolution_change(endpoint, channel, new_address, now_ns))

    def reject_image(self, correlation_id: int, position: int, reason: str) -> None:
        """Reject an image that a client can't use. ``position`` is not reported to the sources."""
        self._ask(lambda receiver, now_ns: receiver.on_reject_image(correlation_id, reason, now_ns))
