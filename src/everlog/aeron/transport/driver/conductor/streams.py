"""State shared by the conductor's parts: clients, their links, and all streams of the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everlog.aeron.transport.driver.commands.clients import Clients
from everlog.aeron.transport.driver.commands.sessions import Sessions
from everlog.aeron.transport.driver.conductor.image_notices import ImageNotices
from everlog.aeron.transport.driver.ipc.publication import IpcPublication
from everlog.aeron.transport.driver.links import Countable, PublicationLink, SubscriptionLink
from everlog.aeron.transport.driver.log_factory import FreedLogs

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
    from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication


@dataclass(slots=True)
class Streams:
    """The driver's streams and links, in order of creation."""

    clients: Clients
    sessions: Sessions
    notices: ImageNotices
    freed_logs: FreedLogs
    publication_links: list[PublicationLink] = field(default_factory=list)
    subscription_links: list[SubscriptionLink] = field(default_factory=list)
    ipc_publications: list[IpcPublication] = field(default_factory=list)
    network_publications: list[NetworkPublication] = field(default_factory=list)
    images: list[PublicationImage] = field(default_factory=list)

    @property
    def has_any(self) -> bool:
        """Whether the driver has a publication, an image, or a log to delete."""
        return bool(self.ipc_publications or self.network_publications or self.images) or self.freed_logs.is_busy

    def link_publication(self, client_id: int, registration_id: int, publication: Countable, now_ms: int) -> None:
        """Add a client's reference to a publication."""
        client = self.clients.get_or_add(client_id, now_ms)
        self.publication_links.append(PublicationLink(registration_id, client, publication))

    def destination_link(self, registration_id: int) -> SubscriptionLink | None:
        """Find the subscription with an id that takes destinations."""
        for link in self.subscription_links:
            if link.registration_id == registration_id and link.has_destinations:
                return link
        return None
