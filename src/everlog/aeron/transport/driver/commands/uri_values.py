"""Parses and checks the values of channel parameters. Refusals have the texts of Java's driver. Source:
PublicationParams, SubscriptionParams."""

from __future__ import annotations

from everlog.aeron.channel_parameters import MAX_INT64, java_int, parse_duration_ns, parse_size
from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    is_power_of_two,
)
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver.commands.command_errors import (
    CommandRefused,
    as_refused,
    configuration_error,
    generic,
    illegal_state,
    invalid_channel,
    number_format,
)

MAX_UDP_PAYLOAD_LENGTH = 65_504
MAX_MESSAGE_LENGTH = 16 << 20
POSITION_PARAMETERS = ("init-term-id", "term-id", "term-offset")
PROTOTYPE_CORRELATION_ID = -2
"""The value of ``response-correlation-id=prototype``."""


def publication_int(text: str, name: str) -> int:
    """Parse a number in a publication's channel."""
    value = java_int(text)
    if value is None:
        raise invalid_channel(f"invalid {name}, must be a number")
    return value


def subscription_int(text: str) -> int:
    """Parse a number in a subscription's channel."""
    value = java_int(text)
    if value is None:
        raise number_format(text)
    return value


def size(uri: ChannelUri, name: str) -> int | None:
    """Parse a size in bytes, such as ``64k``; ``None`` if the parameter is missing."""
    text = uri.get(name)
    if text is None:
        return None
    try:
        return parse_size(name, text)
    except InvalidChannel as error:
        raise _as_generic(error) from error


def duration_ns(uri: ChannelUri, name: str, default: int) -> int:
    """Parse a duration, such as ``5s``, to nanoseconds, capped at the greatest int64."""
    text = uri.get(name)
    if text is None:
        return default
    try:
        return parse_duration_ns(name, text)
    except InvalidChannel as error:
        raise _as_generic(error) from error


def _as_generic(error: InvalidChannel) -> CommandRefused:
    """Convert an error to a generic one: Java's driver parses these values together with the URI, so it does not report
    an invalid channel."""
    return as_refused(error) if error.java is None else generic(error.java)


def flag(uri: ChannelUri, name: str, default: bool) -> bool:
    """Parse a flag: ``true`` is true, anything else is false."""
    text = uri.get(name)
    return default if text is None else text == "true"


def group(uri: ChannelUri, default: bool | None) -> bool | None:
    """Parse ``group``; ``None`` means inferred from the channel."""
    text = uri.get("group")
    if text is None:
        return default
    return None if text == "infer" else text == "true"


def is_response(uri: ChannelUri) -> bool:
    """Whether a channel is a response channel."""
    return uri.get("control-mode") == "response"


def response_correlation_id(uri: ChannelUri) -> int:
    """Parse ``response-correlation-id``: the id of an image, subscription or publication,
    :data:`PROTOTYPE_CORRELATION_ID`, or -1 if it is missing."""
    text = uri.get("response-correlation-id", "-1") or ""
    if text == "prototype":
        return PROTOTYPE_CORRELATION_ID
    value = java_int(text, -1, MAX_INT64)
    if value is None:
        raise invalid_channel(
            "invalid response-correlation-id, must be a number greater than or equal to -1, or 'prototype'"
        )
    return value


def check_term_length(length: int) -> None:
    """Raises :class:`CommandRefused` for an invalid term length."""
    if length < MIN_TERM_LENGTH:
        raise illegal_state(f"Term length less than min length of {MIN_TERM_LENGTH}: length={length}")
    if length > MAX_TERM_LENGTH:
        raise illegal_state(f"Term length more than max length of {MAX_TERM_LENGTH}: length={length}")
    if not is_power_of_two(length):
        raise illegal_state(f"Term length not a power of 2: length={length}")


def check_mtu_length(length: int) -> None:
    """Raises :class:`CommandRefused` for an invalid MTU."""
    if length <= HEADER_LENGTH:
        raise configuration_error(f"mtuLength={length} <= HEADER_LENGTH={HEADER_LENGTH}")
    if length > MAX_UDP_PAYLOAD_LENGTH:
        raise configuration_error(f"mtuLength={length} > MAX_UDP_PAYLOAD_LENGTH={MAX_UDP_PAYLOAD_LENGTH}")
    if length % FRAME_ALIGNMENT:
        raise configuration_error(f"mtuLength={length} is not a multiple of FRAME_ALIGNMENT={FRAME_ALIGNMENT}")


def max_message_length(term_length: int) -> int:
    """The length of a stream's longest message, in bytes."""
    return min(term_length >> 3, MAX_MESSAGE_LENGTH)


def term_distance(term_id: int, initial_term_id: int) -> int:
    """The number of terms from the initial term to another; negative beyond 2^31 - 1."""
    return wrap_int32(term_id - initial_term_id)
