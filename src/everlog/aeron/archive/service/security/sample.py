"""The authenticator and the authorisation of Aeron's samples. Everybody knows their credentials: for tests only.
Source: io.aeron.samples.archive.SampleAuthenticator, SampleAuthorisationService."""

from __future__ import annotations

from enum import Enum, auto

from everlog.aeron.archive.service.security.interfaces import SessionProxy
from everlog.aeron.archive.service.security.simple import MAX_PENDING

PRINCIPAL = b"admin"
CREDENTIALS = b"admin:admin"
CREDENTIALS_TO_CHALLENGE = b"admin:adminC"
CHALLENGE = b"challenge!"
ANSWER_TO_CHALLENGE = b"admin:CSadmin"


class _State(Enum):
    CHALLENGED = auto()
    AUTHENTICATED = auto()
    REJECTED = auto()


class SampleAuthenticator:
    """Accepts ``admin:admin`` as the principal ``admin``; challenges ``admin:adminC``, and then accepts
    ``admin:CSadmin`` with an empty principal; rejects everything else."""

    def __init__(self) -> None:
        self._states: dict[int, _State] = {}

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Check the credentials."""
        while len(self._states) >= MAX_PENDING:  # sessions that ended before they were connected
            del self._states[next(iter(self._states))]
        known = {CREDENTIALS: _State.AUTHENTICATED, CREDENTIALS_TO_CHALLENGE: _State.CHALLENGED}
        self._states[session_id] = known.get(credentials, _State.REJECTED)

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Check the answer."""
        is_challenged = self._states.get(session_id) is _State.CHALLENGED
        is_right = is_challenged and credentials == ANSWER_TO_CHALLENGE
        self._states[session_id] = _State.AUTHENTICATED if is_right else _State.REJECTED

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        """Accept, challenge or reject the client."""
        if self._states.get(session.session_id) is _State.CHALLENGED:
            session.challenge(CHALLENGE)
        else:
            self._settle(session, PRINCIPAL)

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        """Accept or reject the client once it has answered."""
        if self._states.get(session.session_id) is not _State.CHALLENGED:
            self._settle(session, b"")

    def _settle(self, session: SessionProxy, principal: bytes) -> None:
        if self._states.get(session.session_id) is not _State.AUTHENTICATED:
            self._states.pop(session.session_id, None)
            session.reject()
        elif session.authenticate(principal):
            del self._states[session.session_id]


class SampleAuthorisationService:
    """Allows everything to the principal ``admin``, and nothing to others."""

    def is_authorised(self, protocol_id: int, action_id: int, kind: object, principal: bytes) -> bool:
        """Whether the principal is ``admin``."""
        return principal == PRINCIPAL
