"""Tracks session ids in use, and gives out free ones. Source: DriverConductor, SessionKey."""

from __future__ import annotations

from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver.commands.command_errors import invalid_channel

IPC_MEDIA = "ipc"
"""Stands for the common channel of all IPC publications."""


class Sessions:
    """The session ids of a driver. ``next_id`` is given out first; ids from ``reserved_low`` to ``reserved_high`` are
    never given out."""

    def __init__(self, next_id: int, reserved_low: int, reserved_high: int) -> None:
        self._next_id = wrap_int32(next_id)
        self._reserved_low = reserved_low
        self._reserved_high = reserved_high
        self._active: set[tuple[int, int, str]] = set()

    def add(self, session_id: int, stream_id: int, channel: str) -> None:
        """Mark an id as used. ``channel`` is in its canonical form, or :data:`IPC_MEDIA`."""
        self._active.add((session_id, stream_id, channel))

    def remove(self, session_id: int, stream_id: int, channel: str) -> None:
        """Mark an id as free."""
        self._active.discard((session_id, stream_id, channel))

    def check_for_clash(self, session_id: int, stream_id: int, channel: str, original_channel: str) -> None:
        """Raises :class:`CommandRefused` if an id is already used on the channel."""
        if (session_id, stream_id, channel) in self._active:
            raise invalid_channel(
                f"existing publication has clashing sessionId={session_id} for streamId={stream_id}"
                f" channel={original_channel}"
            )

    def next_available(self, stream_id: int, channel: str) -> int:
        """Return an id that is free for the stream on a channel."""
        while True:
            session_id = self._advance()
            if (session_id, stream_id, channel) not in self._active:
                return session_id

    def next_available_on_any(self, stream_id: int) -> int:
        """Return an id that is free for the stream on all channels."""
        taken = {session for session, stream, _ in self._active if stream == stream_id}
        while True:
            session_id = self._advance()
            if session_id not in taken:
                return session_id

    def _advance(self) -> int:
        session_id = self._next_id
        if self._reserved_low <= session_id <= self._reserved_high:
            session_id = wrap_int32(self._reserved_high + 1)
        self._next_id = wrap_int32(session_id + 1)
        return session_id
