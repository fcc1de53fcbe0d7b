"""The error for an operation that an archive refuses, with the error code of Aeron's protocol.

Source: ArchiveException, ArchiveConductor.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from everlog.errors import EverlogError, UsageError


class ErrorCode(IntEnum):
    """The error codes of Aeron's archive protocol."""

    GENERIC = 0
    ACTIVE_LISTING = 1
    ACTIVE_RECORDING = 2
    ACTIVE_SUBSCRIPTION = 3
    UNKNOWN_SUBSCRIPTION = 4
    UNKNOWN_RECORDING = 5
    UNKNOWN_REPLAY = 6
    MAX_REPLAYS = 7
    MAX_RECORDINGS = 8
    INVALID_EXTENSION = 9
    AUTHENTICATION_REJECTED = 10
    STORAGE_SPACE = 11
    UNKNOWN_REPLICATION = 12
    UNAUTHORISED_ACTION = 13
    REPLICATION_CONNECTION_FAILURE = 14
    EMPTY_RECORDING = 15
    INVALID_POSITION = 16


class ArchiveError(UsageError):
    """The archive refused an operation, because of its state or the given values; nothing was changed. ``code`` is the
    error code that an archive sends to its client."""

    code: ErrorCode = ErrorCode.GENERIC
    _sentence = EverlogError._sentence

    def coded(self, code: ErrorCode) -> Self:
        """Set the error code and return the error itself."""
        self.code = code
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"code": self.code})


def refusal(where: str, text: str, code: ErrorCode = ErrorCode.GENERIC) -> ArchiveError:
    """The error for a refusal whose whole sentence is the original's ``text``."""
    return ArchiveError(where, found=text, expected="another state or value", message=text).coded(code)
