"""State shared by the parts of the conductor's network side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from everlog.aeron.transport.driver.conductor.streams import Streams
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.name_resolver import DriverNameResolver
from everlog.aeron.transport.driver.network.channels import Channels
from everlog.aeron.transport.driver.network.socket_releases import SocketReleases
from everlog.aeron.transport.driver.receiver.dispatcher import DataPacketDispatcher
from everlog.aeron.transport.driver.receiver.proxy import ReceiverProxy
from everlog.aeron.transport.driver.sender.sender import SenderProxy
from everlog.aeron.transport.media.context import MediaContext
from everlog.aeron.transport.memory.loss_report_writer import LossReport


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    """Shared state. ``releases`` tracks sockets that ``sender`` and ``receiver`` were asked to release."""

    context: DriverContext
    streams: Streams
    media: MediaContext
    channels: Channels
    sender: SenderProxy
    receiver: ReceiverProxy
    new_dispatcher: Callable[[], DataPacketDispatcher]
    loss_report: LossReport | None
    releases: SocketReleases = field(default_factory=SocketReleases)
    neighbors: DriverNameResolver | None = None
    """The resolver of other drivers' names, if the configuration has a resolver name."""
