"""How a client proves who it is. Credentials are never part of a text. Source: CredentialsSupplier,
NullCredentialsSupplier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class CredentialsSupplier(Protocol):
    """Gives a client's credentials to an archive."""

    def encoded_credentials(self) -> bytes:
        """The credentials of the connect request."""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        """The answer to a challenge of the archive."""


class NoCredentials:
    """The credentials of a client that has none."""

    def encoded_credentials(self) -> bytes:
        """Nothing."""
        return b""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        """Nothing, which an archive that challenges will reject."""
        return b""


class Credentials:
    """Fixed credentials, with an optional function that answers a challenge; by default the credentials do."""

    def __init__(self, credentials: bytes, on_challenge: Callable[[bytes], bytes] | None = None) -> None:
        self._credentials = credentials
        self._on_challenge = on_challenge

    def encoded_credentials(self) -> bytes:
        """The credentials."""
        return self._credentials

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        """What the function answers, or the credentials."""
        return self._credentials if self._on_challenge is None else self._on_challenge(encoded_challenge)

    def __repr__(self) -> str:
        return "Credentials(...)"
