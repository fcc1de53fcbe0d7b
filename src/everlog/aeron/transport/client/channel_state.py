"""The state of a publication's or subscription's channel, from the driver's counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everlog.aeron.transport.client.owner import Owner

CHANNEL_INITIALIZING, CHANNEL_ACTIVE, NO_CHANNEL_STATUS = 0, 1, -1


class ChannelState(ABC):
    """Base of publications and subscriptions. ``channel_status_id`` is the id of the channel's status counter, -1 for
    IPC."""

    channel_status_id: int
    _owner: Owner

    @property
    @abstractmethod
    def _is_detached(self) -> bool:
        """Whether the conductor has taken it out of use."""

    @property
    def channel_status(self) -> int:
        """1: active, 0: initializing, -1: failed or closed."""
        if self._is_detached:
            return NO_CHANNEL_STATUS
        if self.channel_status_id == NO_CHANNEL_STATUS:
            return CHANNEL_ACTIVE
        return self._owner.counters.value(self.channel_status_id)

    @property
    def local_socket_addresses(self) -> list[str]:
        """Addresses that its sockets are bound to; empty for IPC and until the channel is active."""
        if self.channel_status != CHANNEL_ACTIVE:
            return []
        return self._owner.counters.local_socket_addresses(self.channel_status_id)
