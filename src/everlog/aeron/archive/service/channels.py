"""Channels that clients name, and those that the service makes of them, in the spelling and with the texts of the
original. Source: ChannelUri.parse, ChannelUriStringBuilder, SystemUtil.formatSize and formatDuration."""

from __future__ import annotations

from collections.abc import Mapping

from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.writing.stream_parameters import stripped
from everlog.aeron.channel_uri import MAX_URI_LENGTH, SCHEME, SPY_PREFIX, ChannelUri, InvalidChannel
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.time_units import NS_PER_MS, NS_PER_S, NS_PER_US

_ORDER = (
    *("tags", "endpoint", "interface", "control", "control-mode", "mtu", "term-length", "init-term-id", "term-id"),
    *("term-offset", "session-id", "ttl", "reliable", "linger", "alias", "cc", "fc", "gtag", "sparse", "eos", "tether"),
    *("group", "rejoin", "ssc", "so-sndbuf", "so-rcvbuf", "rcv-wnd", "media-rcv-ts-offset", "channel-rcv-ts-offset"),
    *("channel-snd-ts-offset", "response-endpoint", "response-correlation-id", "nak-delay"),
    *("untethered-window-limit-timeout", "untethered-linger-timeout", "untethered-resting-timeout", "max-resend"),
    *("stream-id", "pub-wnd"),
)
_PLACES = {name: place for place, name in enumerate(_ORDER)}
_UNITS = ((30, "g"), (20, "m"), (10, "k"))
_DURATIONS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "us"))
INT32 = range(-(1 << 31), 1 << 31)


def parse_channel(text: str) -> ChannelUri:
    """Parse a client's channel. Raises :class:`ArchiveError` with the original's text."""
    if len(text) > MAX_URI_LENGTH:
        raise _invalid(
            f"URI length ({len(text)}) exceeds max supported length ({MAX_URI_LENGTH}): {text[:MAX_URI_LENGTH]}"
        )
    if not text.removeprefix(SPY_PREFIX).startswith(SCHEME):
        raise _invalid(f"Aeron URIs must start with 'aeron:', found: {text}")
    try:
        uri = ChannelUri.parse(text)
    except InvalidChannel as error:
        media = text.removeprefix(SPY_PREFIX).removeprefix(SCHEME).partition("?")[0]
        if error.where == "channel media":
            raise _invalid(f"unknown media: {media}") from error
        raise _invalid(str(error)) from error
    session_id = uri.get("session-id")
    if session_id is not None and not session_id.startswith("tag:") and not _is_int32(session_id):
        raise _invalid("'session-id' must be a valid integer")
    return uri


def _is_int32(text: str) -> bool:
    try:
        return text.isascii() and "_" not in text and int(text) in INT32
    except ValueError:
        return False


def _invalid(text: str) -> ArchiveError:
    return ArchiveError("channel", found=text, expected="a channel", message=text)


def refusal_text(error: RegistrationRefused) -> str:
    """The text of the original's RegistrationException for a driver's refusal."""
    _, _, text = (error.found or "").partition(": ")
    return f"ERROR - {text.removeprefix('ERROR - ')}, errorCodeValue={error.error_code}"


def built(uri: ChannelUri, own: Mapping[str, str | None]) -> str:
    """Return the channel of a stream that a client asked for: what identifies it, and the service's ``own`` parameters,
    in the original's order."""
    params = {**ChannelUri.parse(stripped(uri)).params, **own}
    known = sorted(((name, value) for name, value in params.items() if value is not None), key=_place)
    return str(ChannelUri(uri.media, dict(known)))


def _place(parameter: tuple[str, str]) -> int:
    return _PLACES.get(parameter[0], len(_ORDER))


def size_text(count: int) -> str:
    """Format bytes as Aeron does: ``64k``, ``1408``."""
    for bits, unit in _UNITS:
        if count and count % (1 << bits) == 0:
            return f"{count >> bits}{unit}"
    return str(count)


def duration_text(duration_ns: int) -> str:
    """Format a duration as Aeron does: ``5s``, ``100ms``, ``0ns``."""
    for unit_ns, unit in _DURATIONS:
        if duration_ns and duration_ns % unit_ns == 0:
            return f"{duration_ns // unit_ns}{unit}"
    return f"{duration_ns}ns"
