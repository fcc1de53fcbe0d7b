"""The driver's events to its clients, on the broadcast buffer. Source: ClientProxy."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.command_errors import CommandRefused
from everlog.aeron.transport.memory.broadcast import BroadcastTransmitter
from everlog.aeron.transport.protocol import commands

IPC_CHANNEL = "aeron:ipc"
"""The source identity of IPC images."""


class ClientProxy:
    """Sends events, with one method for each kind."""

    def __init__(self, transmitter: BroadcastTransmitter) -> None:
        self._transmitter = transmitter

    def transmit(self, event: commands.Event) -> None:
        """Send an event to all clients."""
        self._transmitter.transmit(*commands.encode(event))

    def on_error(self, correlation_id: int, error: CommandRefused) -> None:
        """Report a refused command. A text that is too long is cut."""
        _, without_text = commands.encode(commands.OnError(correlation_id, error.code, ""))
        room = self._transmitter.max_message_length - len(without_text)
        self.transmit(commands.OnError(correlation_id, error.code, error.text[:room]))

    def operation_succeeded(self, correlation_id: int) -> None:
        """Report a command that succeeded without a result."""
        self.transmit(commands.OnOperationSuccess(correlation_id))

    def on_subscription_ready(self, correlation_id: int, channel_status_id: int) -> None:
        """Report a new subscription."""
        self.transmit(commands.OnSubscriptionReady(correlation_id, channel_status_id))

    def on_counter_ready(self, correlation_id: int, counter_id: int) -> None:
        """Report a new counter."""
        self.transmit(commands.OnCounterReady(correlation_id, counter_id))

    def on_static_counter(self, correlation_id: int, counter_id: int) -> None:
        """Report a static counter, which outlives its client."""
        self.transmit(commands.OnStaticCounter(correlation_id, counter_id))

    def on_unavailable_counter(self, registration_id: int, counter_id: int) -> None:
        """Report that a counter is about to be freed."""
        self.transmit(commands.OnUnavailableCounter(registration_id, counter_id))

    def on_unavailable_image(
        self, correlation_id: int, subscription_registration_id: int, stream_id: int, channel: str
    ) -> None:
        """Report that a subscription lost an image."""
        event = commands.OnUnavailableImage(correlation_id, subscription_registration_id, stream_id, channel)
        self.transmit(event)

    def on_client_timeout(self, client_id: int) -> None:
        """Report that a client timed out."""
        self.transmit(commands.OnClientTimeout(client_id))

    def on_next_available_session_id(self, correlation_id: int, session_id: int) -> None:
        """Report a free session id."""
        self.transmit(commands.OnNextAvailableSessionId(correlation_id, session_id))
