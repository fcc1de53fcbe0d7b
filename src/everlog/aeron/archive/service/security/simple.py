"""Principals by their credentials, and rules of what each may do. Source: io.aeron.security.SimpleAuthenticator,
SimpleAuthorisationService."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.aeron.archive.service.security.interfaces import SessionProxy

MAX_PENDING = 10_000
"""Most sessions that have sent credentials and are not connected yet."""


class SimpleAuthenticator:
    """Accepts a client whose credentials are those of a principal, and rejects others. ``credentials`` maps principals
    to their credentials; neither shows in its text."""

    def __init__(self, credentials: Mapping[bytes, bytes]) -> None:
        self._credentials = dict(credentials)
        self._accepted: dict[int, bytes] = {}

    def __repr__(self) -> str:
        return f"<SimpleAuthenticator with {len(self._credentials)} principals>"

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Look for the principal with these credentials."""
        found = None
        for principal, expected in self._credentials.items():  # all of them: the time taken tells nothing
            if hmac.compare_digest(expected, credentials):
                found = principal
        if found is not None:
            while len(self._accepted) >= MAX_PENDING:  # sessions that ended before they were connected
                del self._accepted[next(iter(self._accepted))]
            self._accepted[session_id] = found

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        """Accept or reject the client."""
        principal = self._accepted.get(session.session_id)
        if principal is None:
            session.reject()
        elif session.authenticate(principal):
            del self._accepted[session.session_id]

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        """Do nothing: clients are not challenged."""

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        """Reject the client: clients are not challenged."""
        session.reject()


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed (true) or denied, the special rule before the general one: a type of an action of a protocol, an
    action, a protocol. Actions are template ids, protocols schema ids."""

    types: Mapping[tuple[int, int, object], bool] = field(default_factory=dict)
    actions: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    protocols: Mapping[int, bool] = field(default_factory=dict)

    def find(self, protocol_id: int, action_id: int, kind: object) -> bool | None:
        """The rule for a request; ``None`` if there is none."""
        found = self.types.get((protocol_id, action_id, kind))
        if found is None:
            found = self.actions.get((protocol_id, action_id))
        return self.protocols.get(protocol_id) if found is None else found


class SimpleAuthorisationService:
    """Allows what the principal's rules allow; where they say nothing, what the rules for all allow; where these say
    nothing, ``default``."""

    def __init__(
        self, principals: Mapping[bytes, Rules], general: Rules | None = None, *, default: bool = False
    ) -> None:
        self._principals = dict(principals)
        self._general = general or Rules()
        self._default = default

    def is_authorised(self, protocol_id: int, action_id: int, kind: object, principal: bytes) -> bool:
        """Whether the principal may send this request."""
        for rules in (self._principals.get(principal), self._general):
            found = None if rules is None else rules.find(protocol_id, action_id, kind)
            if found is not None:
                return found
        return self._default
