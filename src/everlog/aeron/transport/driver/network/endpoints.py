"""The endpoints of a driver's channels, sending or receiving: found again, closed when nobody uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from everlog.aeron.transport.driver.network.network_parts import NetworkParts
from everlog.aeron.transport.media.udp_channel import UdpChannel


class Endpoint(Protocol):
    """What both kinds have."""

    @property
    def udp_channel(self) -> UdpChannel: ...
    def should_be_closed(self) -> bool: ...
    def indicate_closing(self) -> None: ...
    def close(self) -> None: ...


E = TypeVar("E", bound=Endpoint)


class Endpoints(ABC, Generic[E]):
    """By their channels' canonical forms."""

    def __init__(self, parts: NetworkParts) -> None:
        self._parts = parts
        self._endpoints: dict[str, E] = {}

    @abstractmethod
    def _let_go(self, endpoint: E) -> None:
        """Ask the agent that uses it to use it no more."""

    def close_if_unused(self, endpoint: E) -> None:
        """Nobody may use it any more: then its agent is asked to let it go."""
        if endpoint.should_be_closed():
            endpoint.indicate_closing()
            self._let_go(endpoint)

    def on_closed(self, endpoint: E) -> None:
        """Its agent let it go."""
        self._endpoints.pop(endpoint.udp_channel.canonical_form, None)
        endpoint.close()

    def close(self) -> None:
        """The driver ends."""
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._endpoints.clear()
