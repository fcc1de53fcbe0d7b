"""The way to the driver: commands into its ring buffer. Source: Aeron's DriverProxy."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import Message, encode
from everlog.errors import CorruptData, LimitExceeded


class DriverProxy:
    """Writes commands for one client, whose id it takes from the driver's counter. Many threads need a lock around
    it."""

    def __init__(self, ring: ManyToOneRingBuffer) -> None:
        self._ring = ring
        self._unsent: deque[Message] = deque()
        self.client_id = ring.next_correlation_id()
        self.has_sent = False
        """Whether the driver may know of this client."""

    @property
    def heartbeat_ms(self) -> int:
        """When the driver last said that it lives, in milliseconds since 1970; -1 after it was shut down."""
        return self._ring.consumer_heartbeat

    def next_correlation_id(self) -> int:
        """An id that no client of this driver has had."""
        return self._ring.next_correlation_id()

    def send(self, command: Message) -> None:
        """Send it now. Raises :class:`LimitExceeded` when the driver has not read so many commands that there is no
        room, :class:`UsageError` for one that is too long, such as one with a channel of a hundred kilobytes,
        :class:`CorruptData` for a damaged buffer."""
        type_id, data = encode(command)
        self.has_sent = True
        self.flush()
        if self._unsent or not self._ring.write(type_id, data):
            raise LimitExceeded(
                "commands to the driver",
                found="a full buffer",
                expected="room for one more",
                hint="the driver is stopped or overloaded; try again",
            )

    def send_sooner_or_later(self, command: Message) -> None:
        """Send it now or, where there is no room, with :meth:`flush`, before any other. Never raises: a damaged buffer
        is told of by :meth:`flush`."""
        self._unsent.append(command)
        with suppress(CorruptData):
            self.flush()

    def flush(self) -> int:
        """Send what waits, as far as there is room; how many. Raises :class:`CorruptData` for a damaged buffer."""
        sent = 0
        while self._unsent:
            if not self._ring.write(*encode(self._unsent[0])):
                break
            self._unsent.popleft()
            sent += 1
        return sent
