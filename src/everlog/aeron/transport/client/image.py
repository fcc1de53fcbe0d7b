"""An image: one publication as a subscription receives it. Source: Aeron's Image."""

from __future__ import annotations

from typing import Any, Protocol

from everlog.aeron.transport.client.images.image_reader import ImageReader
from everlog.aeron.transport.client.images.image_scan import ImageScan
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.kernel.memory import Memory


class ImageRejecter(Protocol):
    """The part of a subscription that its images use."""

    def reject_image(self, image: Image, reason: str) -> None:
        """Implements :meth:`Image.reject`."""


class Image(ImageReader):
    """Has the polls of :class:`Subscription`, for one publication. Once the image is unavailable its polls return 0,
    and it keeps its last position."""

    subscription: ImageRejecter
    correlation_id: int
    """Identifies the image to the driver; part of its log buffer's file name."""
    source_identity: str
    """Address of the publication's driver, or ``aeron:ipc``."""
    subscriber_position_id: int
    """Id of the counter with the subscriber's position."""

    def __init__(self, log: LogMemory, values: Memory, position_offset: int) -> None:
        super().__init__(log, values, position_offset)
        self.log: LogMemory | None = log
        self.position_at: tuple[Memory, int] | None = (values, position_offset)
        """The counter's memory, and its value's offset there."""
        self.scan: ImageScan[Any] | None = None
        """The scan that finds out when a poll is due, if any."""

    def reject(self, reason: str) -> None:
        """Ask the driver to reject this publication. The publisher gets ``reason`` (``on_publication_error``), and the
        image ends after the driver's image liveness timeout. A new image follows if the publication continues. Raises
        :class:`RegistrationRefused`, :class:`DriverTimeout`; :class:`UsageError` for an image of a spy."""
        self.subscription.reject_image(self, reason)

    def detach(self) -> None:
        """For the conductor: close the image and drop its log buffer."""
        self.close()
        self.log = self.position_at = None
        if self.scan is not None:
            self.scan.mark(self)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"position {self.position}"
        return f"<Image session {self.session_id} from {self.source_identity}: {state}>"
