"""The endpoints of a driver's channels, sending or receiving: found again, closed when nobody uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from everlog.aeron.transport.driver.network.context import NetworkContext
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
    """All of one kind. Those of one form have tags that differ."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._endpoints: list[E] = []

    @abstractmethod
    def _let_go(self, endpoint: E) -> None:
        """Ask the agent that uses it to use it no more."""

    def _of_form(self, channel: UdpChannel) -> E | None:
        """The newest endpoint of a channel's canonical form, of those that have its tag, or none."""
        for endpoint in reversed(self._endpoints):
            existing = endpoint.udp_channel
            if existing.canonical_form == channel.canonical_form and not _have_other_tags(existing, channel):
                return endpoint
        return None

    def close_if_unused(self, endpoint: E) -> None:
        """Nobody may use it any more: then its agent is asked to let it go."""
        if endpoint.should_be_closed():
            endpoint.indicate_closing()
            self._parts.releases.begin(self._parts.context.now_ns)
            self._let_go(endpoint)

    def on_closed(self, endpoint: E) -> None:
        """Its agent let it go."""
        self._parts.releases.end()
        self._endpoints = [other for other in self._endpoints if other is not endpoint]
        endpoint.close()

    def close(self) -> None:
        """The driver ends."""
        for endpoint in self._endpoints:
            endpoint.close()
        self._endpoints.clear()


def _have_other_tags(existing: UdpChannel, channel: UdpChannel) -> bool:
    return existing.tag is not None and channel.tag is not None and existing.tag != channel.tag
