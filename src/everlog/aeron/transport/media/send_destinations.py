"""Where a publication with several destinations goes: the user names them, or the receivers' status messages do.
Source: Aeron, ManualSndMultiDestination, DynamicSndMultiDestination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.aeron.transport.media.context import ADDRESS_TIMEOUT_NS
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol.wire import ErrorFrame, StatusMessage
from everlog.kernel.socket_address import SocketAddress

NO_REGISTRATION = -1
MAX_DYNAMIC_DESTINATIONS = 1024
"""Anyone who reaches the control address can ask for the stream: without a limit, spoofed status messages would make a
publication send to as many addresses as there are."""


@dataclass(slots=True)
class Destination:
    """One receiver's address; ``None`` while its name is unknown. ``receiver_id`` is known once it answered."""

    address: SocketAddress | None
    time_of_last_activity_ns: int
    receiver_id: int | None = None
    endpoint: str | None = None
    registration_id: int = NO_REGISTRATION

    def is_of(self, receiver_id: int, source: SocketAddress) -> bool:
        """Whether a frame from that receiver came from here: by its id and port, once it is known, because a machine
        may answer from another of its addresses."""
        if self.address is None or self.address.port != source.port:
            return False
        return self.receiver_id == receiver_id if self.receiver_id is not None else self.address.host == source.host


class Destinations:
    """All of them. ``counter`` tells how many there are."""

    def __init__(self) -> None:
        self.counter: AtomicCounter | None = None
        self._all: list[Destination] = []
        self._first = 0

    def __len__(self) -> int:
        return len(self._all)

    def targets(self, now_ns: int) -> Sequence[SocketAddress | None]:
        """Where a datagram goes, another one first each time. ``None``: nowhere yet."""
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
    """The user adds and removes them."""

    def add(self, destination: Destination) -> None:
        """One more."""
        self._all.append(destination)
        self._changed()

    def remove(self, address: SocketAddress) -> None:
        """The first with that address, if there is one."""
        self._remove([each for each in self._all if each.address == address])

    def remove_by_id(self, registration_id: int) -> None:
        """The one that was added by that command, if there is one."""
        self._remove([each for each in self._all if each.registration_id == registration_id])

    def _remove(self, found: list[Destination]) -> None:
        if found:
            self._all = [each for each in self._all if each is not found[0]]
        self._changed()

    def on_status_message(self, message: StatusMessage, source: SocketAddress, now_ns: int) -> None:
        """A receiver is alive."""
        for each in self._all:
            if each.is_of(message.receiver_id, source):
                each.receiver_id = message.receiver_id
                each.time_of_last_activity_ns = now_ns
                return

    def registration_id_of(self, error: ErrorFrame, source: SocketAddress) -> int:
        """The destination that an error came from, or -1."""
        return next(
            (each.registration_id for each in self._all if each.is_of(error.receiver_id, source)), NO_REGISTRATION
        )

    def silent(self, now_ns: int) -> list[Destination]:
        """Those that nothing was heard of: they are given as long again."""
        found = [each for each in self._all if each.time_of_last_activity_ns + ADDRESS_TIMEOUT_NS < now_ns]
        for each in found:
            each.time_of_last_activity_ns = now_ns
        return found

    def update(self, endpoint: str, address: SocketAddress) -> None:
        """A name means another address now."""
        for each in self._all:
            if each.endpoint == endpoint:
                each.address = address


class DynamicDestinations(Destinations):
    """Status messages add them, silence takes them away."""

    def on_status_message(self, message: StatusMessage, source: SocketAddress, now_ns: int) -> bool:
        """A receiver is alive, or new; false when there is no room for it."""
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
        """Nobody registered any."""
        return NO_REGISTRATION

    def _live(self, now_ns: int) -> list[Destination]:
        live = [each for each in self._all if each.time_of_last_activity_ns + ADDRESS_TIMEOUT_NS >= now_ns]
        if len(live) < len(self._all):
            self._all = live
            self._changed()
        return self._all
