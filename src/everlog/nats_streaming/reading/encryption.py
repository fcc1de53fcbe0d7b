"""Encryption at rest. Only a message's data is encrypted. Source: ``stores/cryptostore.go``.

Byte 0 names the cipher (1: AES-256-GCM, 2: ChaCha20-Poly1305). A 12-byte nonce, the ciphertext and its 16-byte tag
follow, without associated data. Data with another first byte is plaintext. Each channel has its own key: the SHA-256 of
33 + len(channel) zero bytes, the SHA-256 of the master key, a dot, and the channel's name. The zeros are a mistake in
the original and therefore part of the format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import NoReturn

from everlog.core.files.regular_files import read_small_file
from everlog.errors import EverlogError, KeyRefused, MissingDependency, StoreUnavailable, UsageError
from everlog.nats_streaming.family import KEY_VARIABLE
from everlog.nats_streaming.options import NatsStreamingOptions

AES_256_GCM, CHACHA20_POLY1305 = 1, 2
NONCE_BYTES, TAG_BYTES = 12, 16
OVERHEAD = 1 + NONCE_BYTES + TAG_BYTES
MAX_KEY_FILE_BYTES = 64 << 10


def looks_encrypted(data: bytes | memoryview) -> bool:
    """Whether the first byte names a cipher and the data is long enough. Plaintext can look the same."""
    return len(data) >= OVERHEAD and data[0] in (AES_256_GCM, CHACHA20_POLY1305)


class MasterKey:
    """A store's key. Neither its text nor its digest appears in representations or errors."""

    __slots__ = ("_digest",)

    def __init__(self, secret: bytes) -> None:
        if not secret:
            raise KeyRefused(
                "encryption key",
                found="an empty key",
                expected="at least one byte",
                message="the encryption key is empty",
            )
        self._digest = hashlib.sha256(secret).digest()

    def for_channel(self, channel: bytes) -> ChannelCipher:
        """Derive a channel's cipher. Raises :class:`MissingDependency` without the ``cryptography`` package."""
        prefix = bytes(len(self._digest) + 1 + len(channel))
        return ChannelCipher(hashlib.sha256(prefix + self._digest + b"." + channel).digest())

    def __repr__(self) -> str:
        return "MasterKey(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encryption key can't be pickled")


class ChannelCipher:
    """Decrypts the data of one channel's messages."""

    __slots__ = ("_ciphers", "_failure")

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
        except ImportError as error:
            raise MissingDependency(
                "encryption key",
                found="cryptography not installed",
                hint="pip install 'everlog[crypto]'",
                message="decryption needs the package cryptography",
            ) from error
        self._failure = InvalidTag
        self._ciphers: dict[int, Callable[[bytes, bytes, bytes | None], bytes]] = {
            AES_256_GCM: AESGCM(key).decrypt,
            CHACHA20_POLY1305: ChaCha20Poly1305(key).decrypt,
        }

    def open(self, data: bytes) -> bytes | None:
        """Return the plaintext, or ``None`` if the data names a cipher and this key does not decrypt it."""
        decrypt = self._ciphers.get(data[0]) if data else None
        if decrypt is None:
            return data
        if len(data) < OVERHEAD:
            return None
        try:
            return decrypt(data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :], None)
        except self._failure:
            return None

    def __repr__(self) -> str:
        return "ChannelCipher(...)"


def load_master_key(options: NatsStreamingOptions) -> MasterKey | None:
    """Load the key that the options name; ``None`` if they name none. Raises :class:`KeyRefused` if the key is missing
    or empty; the error does not contain the key."""
    if options.encryption_key is not None:
        secret = options.encryption_key
        return MasterKey(_bytes_of(secret) if isinstance(secret, str) else bytes(secret))
    if options.encryption_key_file is not None:
        return MasterKey(_key_file(options.encryption_key_file))
    if options.encryption_key_env is not None:
        try:
            value = os.environ.get(options.encryption_key_env, "")
        except ValueError:  # not a possible variable name
            value = ""
        if not value:
            name = options.encryption_key_env
            raise KeyRefused(
                "encryption_key_env",
                found=f"no variable {name}",
                expected="an environment variable with the key",
                message=f"encryption_key_env: environment variable {name} is not set or empty",
            )
        return MasterKey(os.fsencode(value))
    value = os.environ.get(KEY_VARIABLE, "")
    return MasterKey(os.fsencode(value)) if value else None


def _bytes_of(secret: str) -> bytes:
    try:
        return secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise KeyRefused(
            "encryption_key",
            found="text with half of a surrogate pair",
            expected="valid text or bytes",
            message="encryption_key must be valid text or bytes, not text with half of a surrogate pair",
        ) from None


def _key_file(path: str) -> bytes:
    try:
        secret = read_small_file(path, MAX_KEY_FILE_BYTES)
    except (StoreUnavailable, UsageError) as error:
        raise KeyRefused(
            "encryption_key_file",
            found=f"{path!r}: {error.found}",
            expected=error.expected or "a key file",
            message=f"can't read encryption_key_file: {error}",
        ) from None
    return secret.removesuffix(b"\n").removesuffix(b"\r")


def wrong_key(stream: str, count: int) -> EverlogError:
    """Make the error for a key that decrypts nothing."""
    found = f"the key decrypts none of {count} messages that look encrypted"
    expected = "the key that the server was started with"
    return KeyRefused(
        stream,
        found=found,
        expected=expected,
        hint="without a key the data is returned as stored",
        message=f"{stream}: {found}; give {expected}",
    )
