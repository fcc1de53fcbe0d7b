"""What ties clients to publications, subscriptions and counters: it ends with its client. Source: PublicationLink,
SubscriptionLink and its kinds, CounterLink, Subscribable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.transport.driver.commands.clients import Client
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams
from everlog.aeron.transport.memory.counters_memory import AtomicCounter


class Subscribable(Protocol):
    """A stream in this driver that subscribers read: a publication in shared memory or one that is spied, an image."""

    def add_subscriber(self, link: SubscriptionLink, position: AtomicCounter, now_ns: int) -> None:
        """From now on the position counts for flow control."""

    def remove_subscriber(self, link: SubscriptionLink, position: AtomicCounter) -> None:
        """It counts no more; the position is closed."""


class Countable(Protocol):
    """A publication that lives as long as somebody holds it."""

    def inc_ref(self) -> None: ...
    def dec_ref(self) -> None: ...
    def revoke(self) -> None: ...


class PublicationLink:
    """A client's hold on a publication."""

    def __init__(self, registration_id: int, client: Client, publication: Countable) -> None:
        self.registration_id = registration_id
        self.client = client
        self.publication = publication
        publication.inc_ref()

    def close(self) -> None:
        """Let go."""
        self.publication.dec_ref()


@dataclass(frozen=True, slots=True)
class CounterLink:
    """A client's counter."""

    registration_id: int
    client: Client
    counter: AtomicCounter


class SubscriptionLink:
    """A client's subscription, or one destination of it. ``channel`` is as the client wrote it; ``session_id`` is
    ``None`` where any will do. Compared by identity."""

    has_destinations = False
    """Whether destinations can be added to it."""
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
        """Whether a stream of that session is one for it."""
        return self.session_id == session_id or (self.session_id is None and not self.is_response)

    def is_linked(self, stream: Subscribable) -> bool:
        """Whether it reads that stream."""
        return id(stream) in self._positions

    def link(self, stream: Subscribable, image_id: int, position: AtomicCounter) -> None:
        """It reads that stream, which its client knows by ``image_id``."""
        self._positions[id(stream)] = stream, image_id, position

    def unlink(self, stream: Any) -> None:
        """It reads that stream no more."""
        self._positions.pop(id(stream), None)

    def image_ids(self) -> list[int]:
        """What it reads."""
        return [image_id for _, image_id, _ in self._positions.values()]

    def close(self) -> None:
        """Take its positions from all that it reads."""
        for stream, _, position in self._positions.values():
            stream.remove_subscriber(self, position)
        self._positions.clear()


class IpcSubscriptionLink(SubscriptionLink):
    """Of publications in shared memory."""

    def matches(self, stream_id: int, session_id: int) -> bool:
        """Whether it is of that publication."""
        return stream_id == self.stream_id and self.matches_session(session_id)
