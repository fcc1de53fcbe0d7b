"""Checks the syntax of channels as Java's driver does, with its texts for refusals. Source: ChannelUri.

| state       | letter      | then                              |
| ----------- | ----------- | --------------------------------- |
| media       | ``?``       | key                               |
| media       | ``: | =``   | refused                           |
| key         | ``=``       | value; refused if it is empty     |
| key         | ``|``       | refused                           |
| value       | ``|``       | key                               |

A channel may end in the media or in a value only.
"""

from __future__ import annotations

from everlog.aeron.channel_uri import MAX_URI_LENGTH, MEDIA, SCHEME, SPY_PREFIX, ChannelUri
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, ILLEGAL_STATE, JavaException
from everlog.aeron.transport.driver.commands.command_errors import CommandRefused, caused


def parse(text: str) -> ChannelUri:
    """Parse a channel. Raises :class:`CommandRefused` for a malformed one."""
    if len(text) > MAX_URI_LENGTH:
        shown = text[:MAX_URI_LENGTH]
        lengths = f"URI length ({len(text)}) exceeds max supported length ({MAX_URI_LENGTH})"
        raise _refused(ILLEGAL_ARGUMENT, f"{lengths}: {shown}")
    rest = text.removeprefix(SPY_PREFIX)
    if not rest.startswith(SCHEME):
        raise _refused(ILLEGAL_ARGUMENT, f"Aeron URIs must start with 'aeron:', found: {text}")
    start = len(text) - len(rest) + len(SCHEME)
    media, mark, query = text[start:].partition("?")
    for index, letter in enumerate(media, start):
        if letter in ":|=":
            place = f"within media definition at index {index} in {text}"
            raise _refused(ILLEGAL_ARGUMENT, f"encountered '{letter}' {place}")
    if not mark and media not in MEDIA:
        raise _refused(ILLEGAL_ARGUMENT, f"unknown media: {media}")
    if mark:
        _check_query(query, start + len(media) + len(mark), text)
    if media not in MEDIA:
        raise _refused(ILLEGAL_ARGUMENT, f"UdpChannel only supports UDP media: {text}")
    return ChannelUri.parse(text)


def _check_query(query: str, start: int, text: str) -> None:
    at = start
    for part in query.split("|"):
        key, equals, _ = part.partition("=")
        end = at + len(part)
        if equals and not key:
            raise _refused(ILLEGAL_STATE, f"empty key not allowed at index {at} in {text}")
        if not equals and end < len(text):
            raise _refused(ILLEGAL_STATE, f"invalid end of key at index {end} in {text}")
        if not equals:
            raise _refused(ILLEGAL_STATE, f"no more input found, state=PARAMS_KEY in {text}")
        at = end + 1


def _refused(cause: str, message: str) -> CommandRefused:
    return caused(JavaException(cause, message))
