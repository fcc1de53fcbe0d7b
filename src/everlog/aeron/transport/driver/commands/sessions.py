"""Session ids: those in use, and the next that is free. Source: DriverConductor, SessionKey."""

from __future__ import annotations

from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver.commands.command_errors import invalid_channel

IPC_MEDIA = "ipc"
"""Stands for the channel of all IPC publications."""


class Sessions:
    """``next_id`` is given out first; ids from ``reserved_low`` to ``reserved_high`` never are."""

    def __init__(self, next_id: int, reserved_low: int, reserved_high: int) -> None:
        self._next_id = wrap_int32(next_id)
        self._reserved_low = reserved_low
        self._reserved_high = reserved_high
        self._active: set[tuple[int, int, str]] = set()

    def add(self, session_id: int, stream_id: int, channel: str) -> None:
        """It is in use. ``channel`` is in its canonical form, or :data:`IPC_MEDIA`."""
        self._active.add((session_id, stream_id, channel))

    def remove(self, session_id: int, stream_id: int, channel: str) -> None:
        """It is free again."""
        self._active.discard((session_id, stream_id, channel))

    def check_for_clash(self, session_id: int, stream_id: int, channel: str, original_channel: str) -> None:
        """Raises :class:`CommandRefused` for one that is in use."""
        if (session_id, stream_id, channel) in self._active:
            raise invalid_channel(
                f"existing publication has clashing sessionId={session_id} for streamId={stream_id}"
                f" channel={original_channel}"
            )

    def next_available(self, stream_id: int, channel: str) -> int:
        """One that is free on that channel."""
        while True:
            session_id = self._advance()
            if (session_id, stream_id, channel) not in self._active:
                return session_id

    def next_available_on_any(self, stream_id: int) -> int:
        """One that the stream has on no channel."""
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
