"""How the conductor asks the receiver for things. Source: ReceiverProxy."""

from __future__ import annotations

from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.receiver.receiver import Receiver
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.kernel.udp import SocketAddress
from everlog.runtime.agent_commands import AgentProxy


class ReceiverProxy(AgentProxy[Receiver]):
    """What the conductor asks of the receiver."""

    def add_subscription(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None = None) -> None:
        """Somebody wants a stream, or one session of it."""
        self._ask(lambda receiver, now_ns: receiver.on_add_subscription(endpoint, stream_id, session_id, now_ns))

    def remove_subscription(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None = None) -> None:
        """Nobody wants it any more."""
        self._ask(lambda receiver, now_ns: receiver.on_remove_subscription(endpoint, stream_id, session_id, now_ns))

    def request_setup(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int) -> None:
        """Ask the channel's control for a session's setup."""
        self._ask(lambda receiver, now_ns: receiver.on_request_setup(endpoint, stream_id, session_id, now_ns))

    def new_publication_image(self, endpoint: ReceiveEndpoint, image: PublicationImage) -> None:
        """Its data goes there from now on."""
        self._ask(lambda receiver, now_ns: receiver.on_new_publication_image(endpoint, image, now_ns))

    def register_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Listen to it."""
        self._ask(lambda receiver, now_ns: receiver.on_register_receive_channel_endpoint(endpoint, now_ns))

    def close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        """Listen to it no more; then it may be closed."""
        self._ask(lambda receiver, now_ns: receiver.on_close_receive_channel_endpoint(endpoint, now_ns))

    def remove_cool_down(self, endpoint: ReceiveEndpoint, session_id: int, stream_id: int) -> None:
        """The session may have an image again."""
        self._ask(lambda receiver, now_ns: endpoint.dispatcher.remove_cool_down(stream_id, session_id))

    def remove_init_in_progress(self, endpoint: ReceiveEndpoint, session_id: int, stream_id: int) -> None:
        """No image was made."""
        self._ask(lambda receiver, now_ns: endpoint.dispatcher.remove_init_in_progress(stream_id, session_id))

    def add_destination(self, endpoint: ReceiveEndpoint, transport: ReceiveDestinationTransport) -> None:
        """Listen to another transport of the channel."""
        self._ask(lambda receiver, now_ns: receiver.on_add_destination(endpoint, transport, now_ns))

    def remove_destination(self, endpoint: ReceiveEndpoint, channel: UdpChannel) -> None:
        """Listen to it no more; then it may be closed."""
        self._ask(lambda receiver, now_ns: receiver.on_remove_destination(endpoint, channel, now_ns))

    def on_resolution_change(self, endpoint: ReceiveEndpoint, channel: UdpChannel, new_address: SocketAddress) -> None:
        """A control has another address now."""
        self._ask(lambda receiver, now_ns: receiver.on_resolution_change(endpoint, channel, new_address, now_ns))

    def reject_image(self, correlation_id: int, position: int, reason: str) -> None:
        """A client can't use it from ``position`` on (of which the sources are not told)."""
        self._ask(lambda receiver, now_ns: receiver.on_reject_image(correlation_id, reason, now_ns))
