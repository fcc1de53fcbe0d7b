"""Values of a channel's parameters as the driver's conductor reads them, refused with the words of Java's driver.
Source: PublicationParams, SubscriptionParams; Agrona's SystemUtil."""

from __future__ import annotations

import re

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames import FRAME_ALIGNMENT, HEADER_LENGTH, MAX_TERM_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.position import wrap_int32
from everlog.aeron.transport.driver.conductor.command_errors import (
    CommandRefused,
    illegal_state,
    invalid_channel,
    number_format,
)
from everlog.aeron.transport.error_codes import ErrorCode

MAX_UDP_PAYLOAD_LENGTH = 65_504
MAX_MESSAGE_LENGTH = 16 << 20
POSITION_PARAMETERS = ("init-term-id", "term-id", "term-offset")
PROTOTYPE_CORRELATION_ID = -2
"""What ``response-correlation-id=prototype`` stands for."""
_DIGITS = frozenset("0123456789")
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATIONS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def java_int(text: str, low: int = INT32_MIN, high: int = INT32_MAX) -> int | None:
    """As ``Integer.parseInt``, or ``None``."""
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and low <= value <= high else None


def publication_int(text: str, name: str) -> int:
    """A number of a publication's channel."""
    value = java_int(text)
    if value is None:
        raise invalid_channel(f"invalid {name}, must be a number")
    return value


def subscription_int(text: str) -> int:
    """A number of a subscription's channel."""
    value = java_int(text)
    if value is None:
        raise number_format(text)
    return value


def size(uri: ChannelUri, name: str) -> int | None:
    """Bytes, such as ``64k``; ``None`` where it is not given. Source: Agrona, SystemUtil.parseSize."""
    text = uri.get(name)
    if text is None:
        return None
    _check_not_negative(text, name)
    if text[-1] in _DIGITS:
        return _long(text)
    value = _long(text[:-1])
    unit = _SIZES.get(text[-1].lower())
    if unit is None:
        raise _number_format(f"{name}: {text} should end with: k, m, or g.")
    if value * unit > INT64_MAX:
        raise _number_format(f"{name} would overflow a long: {text}")
    return value * unit


def duration_ns(uri: ChannelUri, name: str, default: int) -> int:
    """Nanoseconds, such as ``5s``; the longest there can be for what is longer. Source: Agrona,
    SystemUtil.parseDuration."""
    text = uri.get(name)
    if text is None:
        return default
    _check_not_negative(text, name)
    if text[-1] in _DIGITS:
        return _long(text)
    unit = next((unit for unit in _DURATIONS if text.lower().endswith(unit)), None)
    if unit is None or len(text) == len(unit):
        raise _number_format(f"{name}: {text} should end with: s, ms, us, or ns.")
    return min(_long(text[: -len(unit)]) * _DURATIONS[unit], INT64_MAX)


def _check_not_negative(text: str, name: str) -> None:
    if not text:
        raise _number_format(f"{name} must be non-empty: {text}")
    if text.startswith("-"):
        raise _number_format(f"{name} must be positive: {text}")


def _long(text: str) -> int:
    """As Agrona's ``AsciiEncoding.parseLongAscii``."""
    name = "org.agrona.AsciiNumberFormatException"
    if not text:
        raise CommandRefused(ErrorCode.GENERIC_ERROR, f"{name} : empty string: index=0 length=0")
    value = java_int(text, 0, INT64_MAX) if text[0] in _DIGITS else None
    if value is None:
        raise CommandRefused(ErrorCode.GENERIC_ERROR, f"{name} : error parsing long: {text}")
    return value


def flag(uri: ChannelUri, name: str, default: bool) -> bool:
    """``true``; anything else is not."""
    text = uri.get(name)
    return default if text is None else text == "true"


def group(uri: ChannelUri, default: bool | None) -> bool | None:
    """``None``: found out from the channel."""
    text = uri.get("group")
    if text is None:
        return default
    return None if text == "infer" else text == "true"


def is_response(uri: ChannelUri) -> bool:
    """Whether it is the channel of a response."""
    return uri.get("control-mode") == "response"


def response_correlation_id(uri: ChannelUri) -> int:
    """-1 where there is none, :data:`PROTOTYPE_CORRELATION_ID`, or the id of an image or a publication."""
    text = uri.get("response-correlation-id", "-1") or ""
    if text == "prototype":
        return PROTOTYPE_CORRELATION_ID
    value = java_int(text, -1, INT64_MAX)
    if value is None:
        raise invalid_channel(
            "invalid response-correlation-id, must be a number greater than or equal to -1, or 'prototype'"
        )
    return value


def check_term_length(length: int) -> None:
    """Raises where no term may be of that length."""
    if length < MIN_TERM_LENGTH:
        raise illegal_state(f"Term length less than min length of {MIN_TERM_LENGTH}: length={length}")
    if length > MAX_TERM_LENGTH:
        raise illegal_state(f"Term length more than max length of {MAX_TERM_LENGTH}: length={length}")
    if not is_power_of_two(length):
        raise illegal_state(f"Term length not a power of 2: length={length}")


def check_mtu_length(length: int) -> None:
    """Raises where no datagram may be of that length."""
    if length <= HEADER_LENGTH:
        raise configuration_error(f"mtuLength={length} <= HEADER_LENGTH={HEADER_LENGTH}")
    if length > MAX_UDP_PAYLOAD_LENGTH:
        raise configuration_error(f"mtuLength={length} > MAX_UDP_PAYLOAD_LENGTH={MAX_UDP_PAYLOAD_LENGTH}")
    if length % FRAME_ALIGNMENT:
        raise configuration_error(f"mtuLength={length} is not a multiple of FRAME_ALIGNMENT={FRAME_ALIGNMENT}")


def max_message_length(term_length: int) -> int:
    """The longest message of a stream."""
    return min(term_length >> 3, MAX_MESSAGE_LENGTH)


def term_distance(term_id: int, initial_term_id: int) -> int:
    """Terms between two; negative where there are more than 2^31."""
    return wrap_int32(term_id - initial_term_id)


def configuration_error(message: str) -> CommandRefused:
    """As a ``ConfigurationException``."""
    name = "io.aeron.exceptions.ConfigurationException"
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"{name} : ERROR - {message}")


def _number_format(message: str) -> CommandRefused:
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"java.lang.NumberFormatException : {message}")
