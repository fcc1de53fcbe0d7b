"""The parameters of a recording's stream: from its channel, the caller's options, and Aeron's defaults.

Source: Aeron's configuration (Configuration.termWindow..., CommonContext), ArchiveConductor.strippedChannelBuilder, the
order of ChannelUriStringBuilder.build.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TypedDict

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import FRAME_ALIGNMENT
from everlog.aeron.frames.framing_inputs import Framing
from everlog.aeron.frames.position import max_position, wrap_int32
from everlog.core.options import MAX_INT64, MIN_INT64, check_type
from everlog.errors import UsageError

DEFAULT_IPC_TERM_LENGTH = 64 << 20
DEFAULT_UDP_TERM_LENGTH = 16 << 20
DEFAULT_MTU_LENGTH = 1408
SOURCE_IPC = "aeron:ipc"
_KEPT = (
    *("tags", "endpoint", "interface", "control", "control-mode", "session-id", "ttl", "alias", "cc", "fc", "gtag"),
    *("tether", "group", "rejoin", "so-sndbuf", "so-rcvbuf", "rcv-wnd", "media-rcv-ts-offset"),
    *("channel-rcv-ts-offset", "channel-snd-ts-offset", "response-endpoint", "response-correlation-id", "stream-id"),
)
"""The parameters that identify a stream, in the order of a stripped channel."""
_OF_ONE_PUBLICATION = frozenset(("session-id", "init-term-id", "term-id", "term-offset"))
_SIZE = re.compile(r"([0-9]{1,18})([kKmMgG]?)", re.ASCII)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


@dataclass(frozen=True, kw_only=True)
class StreamParameters:
    """A stream's parameters, as in a recording's descriptor. ``join_position`` is the position of the stream's next
    frame."""

    channel: str
    stripped_channel: str
    source_identity: str
    stream_id: int
    session_id: int
    initial_term_id: int
    term_length: int
    mtu_length: int
    join_position: int


class StreamKeywords(TypedDict, total=False):
    """The fields of :class:`StreamOptions`, as keywords."""

    session_id: int | None
    initial_term_id: int | None
    term_length: int | None
    mtu_length: int | None
    position: int | None
    source_identity: str | None


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What a caller may set for a stream; ``None`` uses the channel's parameter or the default."""

    session_id: int | None = None
    initial_term_id: int | None = None
    term_length: int | None = None
    mtu_length: int | None = None
    position: int | None = None
    source_identity: str | None = None

    def __post_init__(self) -> None:
        for name in ("session_id", "initial_term_id", "term_length", "mtu_length", "position"):
            check_type(name, getattr(self, name), int | None, "a whole number")
        check_type("source_identity", self.source_identity, str | None, "text")


def parameters_of(channel: str, stream_id: int, stream_options: StreamOptions) -> StreamParameters:
    """Return the parameters of a stream. Raises :class:`UsageError` if a value is invalid, or if an option and the
    channel disagree."""
    check_type("channel", channel, str, "text, such as aeron:ipc")
    uri = ChannelUri.parse(channel)
    is_ipc = uri.media == "ipc"
    default_length = DEFAULT_IPC_TERM_LENGTH if is_ipc else DEFAULT_UDP_TERM_LENGTH
    term_length = _either("term_length", stream_options.term_length, _size(uri, "term-length"), default_length)
    mtu_length = _either("mtu_length", stream_options.mtu_length, _size(uri, "mtu"), DEFAULT_MTU_LENGTH)
    initial = _either("initial_term_id", stream_options.initial_term_id, _number(uri, "init-term-id"), None)
    session_id = _either("session_id", stream_options.session_id, _number(uri, "session-id"), None)
    initial = _random_int32() if initial is None else _int32("initial_term_id", initial)
    session_id = _random_int32() if session_id is None else _int32("session_id", session_id)
    Framing(
        initial_term_id=initial,
        term_length=term_length,
        mtu_length=mtu_length,
        session_id=session_id,
        stream_id=stream_id,
    )  # checks them
    position = _either("position", stream_options.position, _position(uri, initial, term_length), 0)
    last = max_position(term_length) - FRAME_ALIGNMENT
    if not 0 <= position <= last or position % FRAME_ALIGNMENT:
        raise UsageError("position", found=str(position), expected=f"a multiple of {FRAME_ALIGNMENT} from 0 to {last}")
    source = stream_options.source_identity
    if source is None:
        source = SOURCE_IPC if is_ipc else uri.get("endpoint") or uri.get("control") or ""
    return StreamParameters(
        channel=channel,
        stripped_channel=stripped(uri),
        source_identity=source,
        stream_id=stream_id,
        session_id=session_id,
        initial_term_id=initial,
        term_length=term_length,
        mtu_length=mtu_length,
        join_position=position,
    )


def check_int64(name: str, value: int) -> None:
    """Raise :class:`WrongType` unless ``value`` is an integer, :class:`UsageError` unless it fits into 64 bits."""
    check_type(name, value, int, "an integer")
    if not MIN_INT64 <= value <= MAX_INT64:
        raise UsageError(name, found=str(value), expected="a signed 64-bit integer")


def stripped(uri: ChannelUri) -> str:
    """Return the channel with only the parameters that identify its stream."""
    return str(ChannelUri(uri.media, {key: uri.params[key] for key in _KEPT if key in uri.params}))


def for_another_publication(channel: str) -> str:
    """Return a recording's channel without the parameters of its first publication: the session id and the initial
    position."""
    uri = ChannelUri.parse(channel)
    params = {key: value for key, value in uri.params.items() if key not in _OF_ONE_PUBLICATION}
    return str(ChannelUri(uri.media, params, uri.is_spy))


def _either(name: str, wish: int | None, given: int | None, default: int | None) -> int:
    if wish is not None and given is not None and wish != given:
        raise UsageError(name, found=str(wish), expected=f"{given}, as in the channel")
    found = given if wish is None else wish
    return found if found is not None else default  # type: ignore[return-value]


def _int32(name: str, value: int) -> int:
    if value != wrap_int32(value):
        raise UsageError(name, found=str(value), expected="an int32")
    return value


def _random_int32() -> int:
    return wrap_int32(random.getrandbits(32))


def _number(uri: ChannelUri, key: str) -> int | None:
    text = uri.get(key)
    if text is None or text.startswith("tag:"):
        return None
    try:
        return _int32(key, int(text))
    except ValueError:
        raise UsageError("channel", found=f"{key}={text}", expected="a number") from None


def _size(uri: ChannelUri, key: str) -> int | None:
    text = uri.get(key)
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError("channel", found=f"{key}={text}", expected="bytes, or with a unit such as 64k")
    return int(match[1]) << _UNITS[match[2].lower()]


def _position(uri: ChannelUri, initial_term_id: int, term_length: int) -> int | None:
    term_id, offset = _number(uri, "term-id"), _number(uri, "term-offset")
    if term_id is None or offset is None:
        return None
    return ((term_id - initial_term_id) & 0xFFFFFFFF) * term_length + offset
