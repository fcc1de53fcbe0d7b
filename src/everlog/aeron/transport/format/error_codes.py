"""Error codes with which a media driver refuses a command."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes of an error event. Source: Aeron, ErrorCode."""

    UNUSED = 0
    INVALID_CHANNEL = 1
    UNKNOWN_SUBSCRIPTION = 2
    UNKNOWN_PUBLICATION = 3
    CHANNEL_ENDPOINT_ERROR = 4
    UNKNOWN_COUNTER = 5
    UNKNOWN_COMMAND_TYPE_ID = 6
    MALFORMED_COMMAND = 7
    NOT_SUPPORTED = 8
    UNKNOWN_HOST = 9
    RESOURCE_TEMPORARILY_UNAVAILABLE = 10
    GENERIC_ERROR = 11
    STORAGE_SPACE = 12
    IMAGE_REJECTED = 13
    PUBLICATION_REVOKED = 14


def error_code_name(value: int) -> str:
    """The code's name, for example ``UNKNOWN_HOST``; ``error 99`` for an unknown code 99."""
    try:
        return ErrorCode(value).name
    except ValueError:
        return f"error {value}"
