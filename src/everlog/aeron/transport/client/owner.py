"""What publications, subscriptions and counters ask of the client that they belong to."""

from __future__ import annotations

from typing import Any, Protocol

from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.registration import Registration
from everlog.errors import EverlogError


class Owner(Protocol):
    """A client, from the inside."""

    @property
    def counters(self) -> CountersReader:
        """The driver's counters. Raises what ended the client, if it has ended."""

    @property
    def failure(self) -> EverlogError | None:
        """What ended the client, if it was not the program."""

    def close_publication(self, registration_id: int, *, revoke: bool) -> None:
        """Take it out of use, and tell the driver."""

    def close_subscription(self, registration_id: int) -> None:
        """Take it and its images out of use, and tell the driver."""

    def close_counter(self, correlation_id: int) -> None:
        """Take it out of use, and tell the driver."""

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Send a command about destinations, of the class ``kind``."""

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Ask the driver to refuse what an image's publication sends."""
