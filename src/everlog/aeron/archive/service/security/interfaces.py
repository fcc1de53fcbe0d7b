"""Who a client is, and what it may do: the interfaces that a service asks, and those that allow everything.

Source: io.aeron.security.Authenticator, SessionProxy, AuthorisationService.
"""

from __future__ import annotations

from typing import Protocol


class SessionProxy(Protocol):
    """A control session that is to be authenticated."""

    @property
    def session_id(self) -> int:
        """The control session's id."""

    def authenticate(self, principal: bytes) -> bool:
        """Accept the client as ``principal``. Returns false if the answer can't be sent now: try again later."""

    def challenge(self, challenge: bytes) -> bool:
        """Ask the client for other credentials. Returns false if that can't be sent now: try again later."""

    def reject(self) -> None:
        """Refuse the client."""


class Authenticator(Protocol):
    """Decides who a client is. Its methods must not wait; they are called again and again until the session is
    authenticated, challenged or rejected."""

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """A client asks to connect. It can't be answered yet."""

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        """The client can be answered."""

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """The client has answered the challenge."""

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        """The client was challenged, and may have answered."""


class AuthorisationService(Protocol):
    """Decides what a client may do."""

    def is_authorised(self, protocol_id: int, action_id: int, kind: object, principal: bytes) -> bool:
        """Whether the principal may send a request: its schema id and template id, and for some protocols a type."""


class AllowAllAuthenticator:
    """Accepts every client, with an empty principal."""

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Do nothing."""

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        """Accept the client."""
        session.authenticate(b"")

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Do nothing."""

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        """Accept the client."""
        session.authenticate(b"")


class AllowAllAuthorisation:
    """Allows every request."""

    def is_authorised(self, protocol_id: int, action_id: int, kind: object, principal: bytes) -> bool:
        """Return true."""
        return True
