"""An image: what a subscription hears of one publication. Source: Aeron's Image."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.transport.client.images.image_reader import ImageReader
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.kernel.memory import Memory


class Rejecting(Protocol):
    """A subscription, as far as its images use it."""

    def reject_image(self, image: Image, reason: str) -> None:
        """See :meth:`Image.reject`."""


class Image(ImageReader):
    """Polls as :class:`Subscription` does, of this publication alone. Once it is unavailable it gives nothing more, and
    keeps its last position."""

    subscription: Rejecting
    correlation_id: int
    """The log buffer's name."""
    source_identity: str
    """Where the publication is: an address, or ``aeron:ipc``."""
    subscriber_position_id: int
    """Id of the counter of how far it is read."""

    def __init__(self, log: LogMemory, values: Memory, position_offset: int) -> None:
        super().__init__(log, values, position_offset)
        self.log: LogMemory | None = log

    def reject(self, reason: str) -> None:
        """Ask the driver to refuse this publication: it hears why (``on_publication_error``), and the image ends when
        the driver's image liveness timeout is over. It comes anew if the publication goes on. Raises
        :class:`RegistrationRefused`, :class:`DriverTimeout`; :class:`UsageError` for a spy's."""
        self.subscription.reject_image(self, reason)

    def detach(self) -> None:
        """For the conductor: it is gone. Drops the log buffer."""
        self.close()
        self.log = None

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"position {self.position}"
        return f"<Image session {self.session_id} from {self.source_identity}: {state}>"
