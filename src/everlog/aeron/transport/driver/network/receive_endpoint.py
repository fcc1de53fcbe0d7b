"""The receiving end of a channel, as a driver has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from everlog.aeron.transport.media.receive_channel_endpoint import ReceiveChannelEndpoint
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.receiver.dispatcher import DataPacketDispatcher

ReceiveEndpoint: TypeAlias = "ReceiveChannelEndpoint[DataPacketDispatcher]"
Transport: TypeAlias = "ReceiveEndpoint | ReceiveDestinationTransport"
"""What has a socket that a channel is heard by."""
