"""The sending or receiving endpoints of a driver's channels: finds existing ones, and closes unused ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.media.udp_channel import UdpChannel


class Endpoint(Protocol):
    """The interface of sending and receiving endpoints."""

    @property
    def udp_channel(self) -> UdpChannel: ...
    def should_be_closed(self) -> bool: ...
    def indicate_closing(self) -> None: ...
    def close(self) -> None: ...


E = TypeVar("E", bound=Endpoint)


class Endpoints(ABC, Generic[E]):
    """All endpoints of one kind. Endpoints with the same canonical form have different tags."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._endpoints: list[E] = []

    @abstractmethod
    def _ask_to_release(self, endpoint: E) -> None:
        """Ask the agent to stop using an endpoint."""

    def _of_form(self, channel: UdpChannel) -> E | None:
        """The newest endpoint with a channel's canonical form and without a different tag."""
        for endpoint in reversed(self._endpoints):
            existing = endpoint.udp_channel
            if existing.canonical_form == channel.canonical_form and not _have_other_tags(existing, channel):
                return endpoint
        return None

    def close_if_unused(self, endpoint: E) -> None:
        """Ask the agent to release an endpoint if nobody uses it any more."""
        if endpoint.should_be_closed():
            endpoint.indicate_closing()
            self._parts.releases.begin(self._parts.context.now_ns)
            self._ask_to_release(endpoint)

    def on_closed(self, endpoint: E) -> None:
        """Close an endpoint that its agent released."""
        self._parts.releases.end()
        self._endpoints = [other for other in self._endpoints if other is not endpoint]
        endpoint.close()

    def close(self) -> None:
        """Close all endpoints, because the driver stops."""
        for endpoint in self._endpoints:
            endpoint.close()
        self._endpoints.clear()


def _have_other_tags(existing: UdpChannel, channel: UdpChannel) -> bool:
    return existing.tag is not None and channel.tag is not None and existing.tag != channel.tag
