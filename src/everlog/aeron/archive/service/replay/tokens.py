"""Tokens with which a client asks for a replay over another publication than its session's. Source:
ArchiveConductor.generateReplayToken."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from everlog.aeron.archive.service.requester import Requester

NULL_TOKEN = -1
MAX_TOKENS = 10_000
"""Most tokens at a time; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class _Granted:
    requester: Requester
    recording_id: int
    deadline_ns: int


class Tokens:
    """The tokens that were given out. Each is valid for one recording and ``lifetime_ns``, and may be used again."""

    def __init__(self, lifetime_ns: int) -> None:
        self._lifetime_ns = lifetime_ns
        self._granted: dict[int, _Granted] = {}

    def make(self, requester: Requester, recording_id: int, now_ns: int) -> int:
        """Give out a token."""
        token = NULL_TOKEN
        while token == NULL_TOKEN or token in self._granted:
            token = int.from_bytes(secrets.token_bytes(8), "little", signed=True)
        if len(self._granted) >= MAX_TOKENS:
            del self._granted[next(iter(self._granted))]
        self._granted[token] = _Granted(requester, recording_id, now_ns + self._lifetime_ns)
        return token

    def find(self, token: int, recording_id: int, now_ns: int) -> Requester | None:
        """The session that a token was given to; ``None`` if it is unknown, too old, or for another recording, or if
        the session has ended."""
        granted = self._granted.get(token)
        if granted is None or granted.recording_id != recording_id or now_ns >= granted.deadline_ns:
            return None
        return None if granted.requester.is_done else granted.requester

    def expire(self, now_ns: int) -> int:
        """Forget tokens that are too old. Returns how many."""
        count = len(self._granted)
        while self._granted:
            token, granted = next(iter(self._granted.items()))  # the oldest
            if now_ns < granted.deadline_ns:
                break
            del self._granted[token]
        return count - len(self._granted)
