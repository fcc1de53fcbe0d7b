"""Who is let in and what they may do where credentials decide, as in ``ArchiveServerPeer.java``."""

from __future__ import annotations

from everlog.aeron.archive.service.security.interfaces import SessionProxy

FOR_READERS = {3, 8, 9, 10, 12, 15, 16, 17, 52, 61, 67, 68}
"""Template ids."""


class AskingAuthenticator:
    """``admin`` and ``reader`` are let in at once, ``asked`` must answer a challenge, ``silent`` is never decided
    on."""

    def __init__(self) -> None:
        self._said: dict[int, bytes] = {}

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Remember them."""
        self._said[session_id] = credentials

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Remember them."""
        self._said[session_id] = credentials

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        """Decide, or ask."""
        credentials = self._said[session.session_id]
        if credentials == b"asked":
            session.challenge(b"who?")
        elif credentials != b"silent":
            self._decide(session, credentials)

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        """Decide once there is an answer."""
        credentials = self._said[session.session_id]
        if credentials != b"asked":
            self._decide(session, credentials)

    @staticmethod
    def _decide(session: SessionProxy, credentials: bytes) -> None:
        if credentials in (b"admin", b"reader"):
            session.authenticate(credentials)
        else:
            session.reject()


class ReadersRead:
    """A reader may do what changes nothing."""

    def is_authorised(self, protocol_id: int, action_id: int, kind: object, principal: bytes) -> bool:
        """Whether it is an admin, or only reads."""
        return principal == b"admin" or action_id in FOR_READERS
