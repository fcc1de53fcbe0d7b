"""Channels as Java's driver parses them, refused with its words. Source: ChannelUri.

| state       | letter      | then                              |
| ----------- | ----------- | --------------------------------- |
| media       | ``?``       | key                               |
| media       | ``: | =``   | refused                           |
| key         | ``=``       | value; refused where it is empty  |
| key         | ``|``       | refused                           |
| value       | ``|``       | key                               |

It may end in the media or in a value, and nowhere else.
"""

from __future__ import annotations

from everlog.aeron.channel_uri import MAX_URI_LENGTH, MEDIA, SCHEME, SPY_PREFIX, ChannelUri
from everlog.aeron.transport.driver.conductor.command_errors import CommandRefused
from everlog.aeron.transport.error_codes import ErrorCode

_ARGUMENT, _STATE = "java.lang.IllegalArgumentException", "java.lang.IllegalStateException"


def parse(text: str) -> ChannelUri:
    """A channel. Raises :class:`CommandRefused`."""
    if len(text) > MAX_URI_LENGTH:
        shown = text[:MAX_URI_LENGTH]
        raise _refused(_ARGUMENT, f"URI length ({len(text)}) exceeds max supported length ({MAX_URI_LENGTH}): {shown}")
    rest = text.removeprefix(SPY_PREFIX)
    if not rest.startswith(SCHEME):
        raise _refused(_ARGUMENT, f"Aeron URIs must start with 'aeron:', found: {text}")
    start = len(text) - len(rest) + len(SCHEME)
    media, mark, query = text[start:].partition("?")
    for index, letter in enumerate(media, start):
        if letter in ":|=":
            raise _refused(_ARGUMENT, f"encountered '{letter}' within media definition at index {index} in {text}")
    if not mark and media not in MEDIA:
        raise _refused(_ARGUMENT, f"unknown media: {media}")
    if mark:
        _check_query(query, start + len(media) + len(mark), text)
    return ChannelUri.parse(text)


def _check_query(query: str, start: int, text: str) -> None:
    at = start
    for part in query.split("|"):
        key, equals, _ = part.partition("=")
        end = at + len(part)
        if equals and not key:
            raise _refused(_STATE, f"empty key not allowed at index {at} in {text}")
        if not equals and end < len(text):
            raise _refused(_STATE, f"invalid end of key at index {end} in {text}")
        if not equals:
            raise _refused(_STATE, f"no more input found, state=PARAMS_KEY in {text}")
        at = end + 1


def _refused(cause: str, message: str) -> CommandRefused:
    return CommandRefused(ErrorCode.INVALID_CHANNEL, f"{cause}: {message}")
