"""Sends commands to the driver through its ring buffer. Source: Aeron's DriverProxy."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import DriverMessage, encode
from everlog.errors import CorruptData, LimitExceeded


class DriverProxy:
    """Writes the commands of one client; takes the client's id from the driver's correlation counter. Not
    thread-safe."""

    def __init__(self, ring: ManyToOneRingBuffer) -> None:
        self._ring = ring
        self._unsent: deque[DriverMessage] = deque()
        self.client_id = ring.next_correlation_id()
        self.has_sent = False
        """Whether a command was sent: only then does the driver know this client."""

    @property
    def heartbeat_ms(self) -> int:
        """The driver's last heartbeat, in milliseconds since 1970; -1 after a shutdown."""
        return self._ring.consumer_heartbeat

    @property
    def has_unsent(self) -> bool:
        """Whether commands wait for room in the driver's buffer."""
        return bool(self._unsent)

    def next_correlation_id(self) -> int:
        """Take a correlation id, unique among all clients of this driver."""
        return self._ring.next_correlation_id()

    def send(self, command: DriverMessage) -> None:
        """Send a command now. Raises :class:`LimitExceeded` if unread commands fill the buffer, :class:`UsageError` if
        the command is too long (for example a channel of 100 kB), :class:`CorruptData` if the buffer is damaged."""
        type_id, data = encode(command)
        self.has_sent = True
        self.flush()
        if self._unsent or not self._ring.write(type_id, data):
            raise LimitExceeded(
                "commands to the driver",
                found="the command buffer is full",
                hint="the driver is stopped or overloaded; try again",
            )

    def send_or_queue(self, command: DriverMessage) -> None:
        """Send a command now or, if the buffer is full, with the next :meth:`flush`, before any later one. Never
        raises: :meth:`flush` reports a damaged buffer."""
        self._unsent.append(command)
        with suppress(CorruptData):
            self.flush()

    def flush(self) -> int:
        """Send queued commands as far as they fit. Returns their number. Raises :class:`CorruptData` if the buffer is
        damaged."""
        sent = 0
        while self._unsent:
            if not self._ring.write(*encode(self._unsent[0])):
                break
            self._unsent.popleft()
            sent += 1
        return sent
