"""How the channel of a publication or a subscription is doing, as its driver counts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everlog.aeron.transport.client.owner import Owner

CHANNEL_INITIALIZING, CHANNEL_ACTIVE, NO_CHANNEL_STATUS = 0, 1, -1


class ChannelState(ABC):
    """Of what has a channel. ``channel_status_id`` is the id of the counter of the channel's state; -1 for IPC."""

    channel_status_id: int
    _owner: Owner

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """It was closed."""

    @property
    def channel_status(self) -> int:
        """1: active, 0: being set up, -1: failed, or closed."""
        if self._is_over:
            return NO_CHANNEL_STATUS
        if self.channel_status_id == NO_CHANNEL_STATUS:
            return CHANNEL_ACTIVE
        return self._owner.counters.value(self.channel_status_id)

    @property
    def local_socket_addresses(self) -> list[str]:
        """Where its sockets are bound; empty for IPC, and before they are."""
        if self.channel_status != CHANNEL_ACTIVE:
            return []
        return self._owner.counters.local_socket_addresses(self.channel_status_id)
