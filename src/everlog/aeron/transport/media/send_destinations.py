"""Destinations of a multi-destination publication: set manually, or by the receivers' status messages. Source: Aeron,
ManualSndMultiDestination, DynamicSndMultiDestination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.aeron.transport.media.context import ADDRESS_TIMEOUT_NS
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol.wire import ErrorFrame, StatusMessage
from everlog.kernel.socket_address import SocketAddress

NO_REGISTRATION = -1
MAX_DYNAMIC_DESTINATIONS = 1024
"""Any host that reaches the control address can request the stream: without a limit, spoofed status messages would make
a publication send to any number of addresses."""


@dataclass(slots=True)
class Destination:
    """A receiver's address; ``None`` while its name is unresolved. ``receiver_id`` is known after its first answer."""

    address: SocketAddress | None
    time_of_last_activity_ns: int
    receiver_id: int | None = None
    endpoint: str | None = None
    registration_id: int = NO_REGISTRATION

    def is_of(self, receiver_id: int, source: SocketAddress) -> bool:
        """Whether a frame of that receiver belongs to this destination: by id and port once the id is known, because a
        machine may answer from another of its addresses."""
        if self.address is None or self.address.port != source.port:
            return False
        return self.receiver_id == receiver_id if self.receiver_id is not None else self.address.host == source.host


class Destinations:
    """All destinations. ``counter`` has their number."""

    def __init__(self) -> None:
        self.counter: AtomicCounter | None = None
        self._all: list[Destination] = []
        self._first = 0

    def __len__(self) -> int:
        return len(self._all)

    def targets(self, now_ns: int) -> Sequence[SocketAddress | None]:
        """The destinations of a datagram, starting with another one each time. ``None`` marks an unresolved name."""
        found = [each.address for each in self._live(now_ns)]
        first, self._first = self._first, self._first + 1
        if first >= len(found):
            first, self._first = 0, 1
        return found[first:] + found[:first]

    def _live(self, now_ns: int) -> list[Destination]:
        return self._all

    def _changed(self) -> None:
        if self.counter is not None:
            self.counter.set_release(len(self._all))


class ManualDestinations(Destinations):
    """Destinations that the user adds and removes."""

    def add(self, destination: Destination) -> None:
        """Add a destination."""
        self._all.append(destination)
        self._changed()

    def remove(self, address: SocketAddress) -> None:
        """Remove the first destination with that address, if any."""
        self._remove([each for each in self._all if each.address == address])

    def remove_by_id(self, registration_id: int) -> None:
        """Remove the destination that this command added, if any."""
        self._remove([each for each in self._all if each.registration_id == registration_id])

    def _remove(self, found: list[Destination]) -> None:
        if found:
            self._all = [each for each in self._all if each is not found[0]]
        self._changed()

    def on_status_message(self, message: StatusMessage, source: SocketAddress, now_ns: int) -> None:
        """Handle a status message of a receiver."""
        for each in self._all:
            if each.is_of(message.receiver_id, source):
                each.receiver_id = message.receiver_id
                each.time_of_last_activity_ns = now_ns
                return

    def registration_id_of(self, error: ErrorFrame, source: SocketAddress) -> int:
        """The registration id of the destination that an error came from, or -1."""
        return next(
            (each.registration_id for each in self._all if each.is_of(error.receiver_id, source)), NO_REGISTRATION
        )

    def silent(self, now_ns: int) -> list[Destination]:
        """The silent destinations; their timeout starts again."""
        found = [each for each in self._all if each.time_of_last_activity_ns + ADDRESS_TIMEOUT_NS < now_ns]
        for each in found:
            each.time_of_last_activity_ns = now_ns
        return found

    def update(self, endpoint: str, address: SocketAddress) -> None:
        """Set the new address of a name."""
        for each in self._all:
            if each.endpoint == endpoint:
                each.address = address


class DynamicDestinations(Destinations):
    """Destinations that status messages add and silence removes."""

    def on_status_message(self, message: StatusMessage, source: SocketAddress, now_ns: int) -> bool:
        """Handle a status message; returns false if there is no room for a new receiver."""
        for each in self._all:
            if (
                each.address is not None
                and each.receiver_id == message.receiver_id
                and each.address.port == source.port
            ):
                each.time_of_last_activity_ns = now_ns
                return True
        if len(self._live(now_ns)) >= MAX_DYNAMIC_DESTINATIONS:
            return False
        self._all.append(Destination(source, now_ns, message.receiver_id))
        self._changed()
        return True

    def registration_id_of(self, error: ErrorFrame, source: SocketAddress) -> int:
        """Return -1: dynamic destinations have no registration."""
        return NO_REGISTRATION

    def _live(self, now_ns: int) -> list[Destination]:
        live = [each for each in self._all if each.time_of_last_activity_ns + ADDRESS_TIMEOUT_NS >= now_ns]
        if len(live) < len(self._all):
            self._all = live
            self._changed()
        return self._all
