"""The interface through which publications, subscriptions and counters use their client."""

from __future__ import annotations

from typing import Any, Protocol

from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.registration import Registration
from everlog.errors import EverlogError


class Owner(Protocol):
    """The client as its publications, subscriptions and counters see it."""

    @property
    def counters(self) -> CountersReader:
        """The driver's counters. Raises the error that ended the client."""

    @property
    def failure(self) -> EverlogError | None:
        """The error that ended the client; ``None`` while it runs, and if the program closed it."""

    def close_publication(self, registration_id: int, *, revoke: bool) -> None:
        """Detach the publication and have the driver remove it."""

    def close_subscription(self, registration_id: int) -> None:
        """Detach the subscription with its images and have the driver remove it."""

    def close_counter(self, correlation_id: int) -> None:
        """Detach the counter and have the driver free it, unless it is static."""

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Send a destination command of class ``kind``."""

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Ask the driver to reject an image."""
