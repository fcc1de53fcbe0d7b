"""Links between clients and their publications, subscriptions and counters. A link ends with its client. Source:
PublicationLink, SubscriptionLink and its subclasses, CounterLink, Subscribable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.transport.driver.commands.clients import Client
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams
from everlog.aeron.transport.memory.counters_memory import AtomicCounter


class Subscribable(Protocol):
    """A stream that subscribers of this driver read: an IPC publication, a publication with spies, or an image."""

    def add_subscriber(self, link: SubscriptionLink, position: AtomicCounter, now_ns: int) -> None:
        """Count the position for flow control from now on."""

    def remove_subscriber(self, link: SubscriptionLink, position: AtomicCounter) -> None:
        """Stop counting the position, and close it."""


class Countable(Protocol):
    """A reference-counted publication."""

    def inc_ref(self) -> None: ...
    def dec_ref(self) -> None: ...
    def revoke(self) -> None: ...


class PublicationLink:
    """A client's reference to a publication."""

    def __init__(self, registration_id: int, client: Client, publication: Countable) -> None:
        self.registration_id = registration_id
        self.client = client
        self.publication = publication
        publication.inc_ref()

    def close(self) -> None:
        """Release the reference."""
        self.publication.dec_ref()


@dataclass(frozen=True, slots=True)
class CounterLink:
    """A client's counter."""

    registration_id: int
    client: Client
    counter: AtomicCounter


class SubscriptionLink:
    """A client's subscription, or one of its destinations. ``channel`` is the URI as the client wrote it; a
    ``session_id`` of ``None`` accepts all sessions. Links are compared by identity."""

    has_destinations = False
    """Whether the subscription takes destinations."""
    is_reliable = True

    def __init__(
        self, registration_id: int, stream_id: int, channel: str, client: Client, params: SubscriptionParams
    ) -> None:
        self.registration_id = registration_id
        self.stream_id = stream_id
        self.channel = channel
        self.client = client
        self.session_id = params.session_id
        self.is_sparse = params.is_sparse
        self.is_tether = params.is_tether
        self.is_rejoin = params.is_rejoin
        self.is_response = params.is_response
        self.group = params.group
        self._positions: dict[int, tuple[Subscribable, int, AtomicCounter]] = {}

    def matches_session(self, session_id: int) -> bool:
        """Whether the subscription accepts a session."""
        return self.session_id == session_id or (self.session_id is None and not self.is_response)

    def is_linked(self, stream: Subscribable) -> bool:
        """Whether the subscription reads a stream."""
        return id(stream) in self._positions

    def link(self, stream: Subscribable, image_id: int, position: AtomicCounter) -> None:
        """Record that the subscription reads a stream, which its client knows by ``image_id``."""
        self._positions[id(stream)] = stream, image_id, position

    def unlink(self, stream: Any) -> None:
        """Record that the subscription no longer reads a stream."""
        self._positions.pop(id(stream), None)

    def image_ids(self) -> list[int]:
        """The image ids of all streams that the subscription reads."""
        return [image_id for _, image_id, _ in self._positions.values()]

    def close(self) -> None:
        """Remove the subscription's positions from all its streams."""
        for stream, _, position in self._positions.values():
            stream.remove_subscriber(self, position)
        self._positions.clear()


class IpcSubscriptionLink(SubscriptionLink):
    """A subscription to IPC publications."""

    def matches(self, stream_id: int, session_id: int) -> bool:
        """Whether the subscription accepts a publication's stream and session."""
        return stream_id == self.stream_id and self.matches_session(session_id)
