"""What publications, subscriptions and counters ask of the client that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from everlog.errors import EverlogError

if TYPE_CHECKING:
    from everlog.aeron.transport.client.conducting.registration import Registration
    from everlog.aeron.transport.client.counters_reader import Counter, CountersReader
    from everlog.aeron.transport.client.publication import PublicationParts
    from everlog.aeron.transport.client.subscription import Subscription


class Owner(Protocol):
    """A client, from the inside."""

    @property
    def counters(self) -> CountersReader:
        """The driver's counters. Raises what ended the client, if it has ended."""

    @property
    def failure(self) -> EverlogError | None:
        """What ended the client, if it was not the program."""

    def close_publication(self, publication: PublicationParts, *, revoke: bool) -> None:
        """Take it out of use, and tell the driver."""

    def close_subscription(self, subscription: Subscription) -> None:
        """Take it and its images out of use, and tell the driver."""

    def close_counter(self, counter: Counter) -> None:
        """Take it out of use, and tell the driver."""

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Send a command about destinations, of the class ``kind``."""

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Ask the driver to refuse what an image's publication sends."""
