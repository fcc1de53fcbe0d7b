"""The checked parameters of a publication's channel, with the driver's defaults. Source: PublicationParams."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.channel_parameters import INT32, INT64, java_int
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, MAX_TERM_LENGTH
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver.commands import uri_values as values
from everlog.aeron.transport.driver.commands.command_errors import illegal_state, invalid_channel
from everlog.aeron.transport.driver.commands.sessions import Sessions
from everlog.aeron.transport.driver.settings.configuration import Configuration

INVALID_TAG = -1
MAX_RESEND = 256
TAG_PREFIX = "tag:"


class ExistingPublication(Protocol):
    """An existing publication, which a new one may refer to or must agree with."""

    @property
    def tag(self) -> int: ...
    @property
    def channel(self) -> str: ...
    @property
    def session_id(self) -> int: ...
    @property
    def mtu_length(self) -> int: ...
    @property
    def term_length(self) -> int: ...
    @property
    def initial_term_id(self) -> int: ...
    @property
    def starting_term_id(self) -> int: ...
    @property
    def starting_term_offset(self) -> int: ...


@dataclass(slots=True)
class PublicationParams:
    """A publication's parameters. Lengths are in bytes. ``has_position`` is true if the channel gives the stream's
    first position."""

    session_id: int
    stream_id: int
    term_length: int
    mtu_length: int
    publication_window_length: int
    initial_term_id: int
    term_id: int
    term_offset: int
    has_position: bool
    entity_tag: int
    linger_timeout_ns: int
    untethered_window_limit_timeout_ns: int
    untethered_linger_timeout_ns: int
    untethered_resting_timeout_ns: int
    max_resend: int
    signal_eos: bool
    is_sparse: bool
    spies_simulate_connection: bool
    is_response: bool
    response_correlation_id: int

    @property
    def position(self) -> int:
        """The stream's first position."""
        return values.term_distance(self.term_id, self.initial_term_id) * self.term_length + self.term_offset


@dataclass(frozen=True, slots=True)
class ExistingPublications:
    """The sessions in use, and all existing publications of the new one's media and of the other media."""

    sessions: Sessions
    same_media: Iterable[ExistingPublication]
    other_media: Iterable[ExistingPublication]
    random: random.Random


def publication_params(
    uri: ChannelUri, configuration: Configuration, stream_id: int, canonical_form: str, there: ExistingPublications
) -> PublicationParams:
    """Parse a publication's channel. Raises :class:`CommandRefused` with the texts of Java's driver."""
    is_ipc = uri.media == "ipc"
    term_length = configuration.ipc_term_buffer_length if is_ipc else configuration.publication_term_buffer_length
    mtu_length = configuration.ipc_mtu_length if is_ipc else configuration.mtu_length
    _check_stream_id(uri, stream_id)
    entity_tag = _entity_tag(uri, there)
    tagged = _session_tag(uri, there)
    if tagged is not None:
        session_id, mtu_length, term_length = tagged.session_id, tagged.mtu_length, tagged.term_length
    else:
        text = uri.get("session-id")
        session_id = (
            there.sessions.next_available(stream_id, canonical_form)
            if text is None
            else values.publication_int(text, "session-id")
        )
    term_length = _term_length(uri, term_length, tagged is not None)
    mtu_length = _mtu_length(uri, mtu_length, term_length, tagged is not None)
    window = _window(uri, configuration, term_length, mtu_length)
    linger = values.duration_ns(uri, "linger", configuration.publication_linger_timeout_ns)
    untethered = untethered_timeouts(uri, configuration)
    max_resend = _max_resend(uri, configuration)
    initial_term_id, term_id, term_offset, has_position = _position(uri, term_length, there.random)
    return PublicationParams(
        session_id=session_id,
        stream_id=stream_id,
        term_length=term_length,
        mtu_length=mtu_length,
        publication_window_length=window,
        initial_term_id=initial_term_id,
        term_id=term_id,
        term_offset=term_offset,
        has_position=has_position,
        entity_tag=entity_tag,
        linger_timeout_ns=linger,
        untethered_window_limit_timeout_ns=untethered[0],
        untethered_linger_timeout_ns=untethered[1],
        untethered_resting_timeout_ns=untethered[2],
        max_resend=max_resend,
        signal_eos=values.flag(uri, "eos", True),
        is_sparse=values.flag(uri, "sparse", configuration.term_buffer_sparse_file),
        spies_simulate_connection=values.flag(uri, "ssc", configuration.spies_simulate_connection),
        is_response=values.is_response(uri),
        response_correlation_id=values.response_correlation_id(uri),
    )


def untethered_timeouts(uri: ChannelUri, configuration: Configuration) -> tuple[int, int, int]:
    """The timeouts of untethered subscribers, in nanoseconds: window limit, linger, resting."""
    limit = values.duration_ns(uri, "untethered-window-limit-timeout", configuration.untethered_window_limit_timeout_ns)
    default = configuration.untethered_linger_timeout_ns
    linger = values.duration_ns(uri, "untethered-linger-timeout", limit if default is None else default)
    resting = values.duration_ns(uri, "untethered-resting-timeout", configuration.untethered_resting_timeout_ns)
    return limit, linger, resting


def confirm_match(uri: ChannelUri, params: PublicationParams, existing: ExistingPublication) -> None:
    """Raises :class:`CommandRefused` if a channel's parameters differ from those of the publication to share."""
    pairs = (
        ("mtu", existing.mtu_length, params.mtu_length),
        ("term-length", existing.term_length, params.term_length),
        ("session-id", existing.session_id, params.session_id),
        ("init-term-id", existing.initial_term_id, params.initial_term_id),
        ("term-id", existing.starting_term_id, params.term_id),
        ("term-offset", existing.starting_term_offset, params.term_offset),
    )
    for name, there, asked in pairs:
        if uri.get(name) is not None and there != asked:
            raise illegal_state(
                f"existing publication has different '{name}': existing={there} requested={asked}"
                f" existingChannel={existing.channel} channel={uri}"
            )


def _check_stream_id(uri: ChannelUri, stream_id: int) -> None:
    text = uri.get("stream-id")
    if text is not None:
        asked = values.publication_int(text, "stream-id")
        if asked != stream_id:
            raise invalid_channel(f"stream-id={asked} does not match provided streamId={stream_id}")


def _entity_tag(uri: ChannelUri, there: ExistingPublications) -> int:
    text = uri.entity_tag
    if text is None:
        return INVALID_TAG
    tag = java_int(text, INT64[0], INT64[-1])
    if tag is None:
        raise invalid_channel("invalid entity tag, must be a number")
    if tag == INVALID_TAG:
        raise invalid_channel(f"{INVALID_TAG} tag is reserved: channel={uri}")
    for publications in (there.other_media, there.same_media):
        found = _find_by_tag(publications, tag)
        if found is not None:
            raise invalid_channel(f"{tag} entityTag already in use: existingChannel={found.channel} channel={uri}")
    return tag


def _session_tag(uri: ChannelUri, there: ExistingPublications) -> ExistingPublication | None:
    """The publication that ``session-id=tag:N`` refers to."""
    text = uri.get("session-id")
    if text is None or not text.startswith(TAG_PREFIX):
        return None
    tag = java_int(text.removeprefix(TAG_PREFIX), INT64[0], INT64[-1])
    if tag is None:
        raise invalid_channel(f"session-id={text} has an invalid tag: channel={uri}")
    found = _find_by_tag(there.same_media, tag)
    if found is None:
        kind = "an IPC publication: " if uri.media == "ipc" else "a network publication: "
        raise invalid_channel(f"session-id={text} must reference {kind}channel={uri}")
    return found


def _find_by_tag(publications: Iterable[ExistingPublication], tag: int) -> ExistingPublication | None:
    if tag == INVALID_TAG:
        return None
    return next((publication for publication in publications if publication.tag == tag), None)


def _term_length(uri: ChannelUri, default: int, is_tagged: bool) -> int:
    length = values.size(uri, "term-length")
    if length is None:
        return default
    length = wrap_int32(length)
    values.check_term_length(length)
    if is_tagged and length != default:
        raise invalid_channel(f"term-length={length} does not match session-id tag value: channel={uri}")
    return length


def _mtu_length(uri: ChannelUri, default: int, term_length: int, is_tagged: bool) -> int:
    length = values.size(uri, "mtu")
    if length is None:
        length = default
    else:
        length = wrap_int32(length)
        values.check_mtu_length(length)
        if is_tagged and length != default:
            raise invalid_channel(f"mtu={length} does not match session-id tag value: channel={uri}")
    longest = values.max_message_length(term_length)
    if length > longest:
        raise invalid_channel(
            f"MTU greater than max message length for term length: mtu={length} maxMessageLength={longest}"
            f" termLength={term_length} channel={uri}"
        )
    return length


def _window(uri: ChannelUri, configuration: Configuration, term_length: int, mtu_length: int) -> int:
    half = term_length >> 1
    window = values.size(uri, "pub-wnd")
    if window is None:
        is_ipc = uri.media == "ipc"
        default = (
            configuration.ipc_publication_term_window_length if is_ipc else configuration.publication_term_window_length
        )
        return min(default, half) if default else half
    if window < mtu_length:
        raise invalid_channel(f"pub-wnd={window} cannot be less than the mtu={mtu_length}")
    if window > half:
        raise invalid_channel(f"pub-wnd={window} must not exceed half the term-length={term_length}")
    return window


def _max_resend(uri: ChannelUri, configuration: Configuration) -> int:
    text = uri.get("max-resend")
    if text is None:
        return configuration.max_resend
    count = values.publication_int(text, "max-resend")
    if not 0 < count <= MAX_RESEND:
        raise invalid_channel(f"invalid max-resend={count}, must be > 0 and <= {MAX_RESEND}")
    return count


def _position(uri: ChannelUri, term_length: int, generator: random.Random) -> tuple[int, int, int, bool]:
    """Initial term id, term id, term offset, and whether the channel gives them."""
    texts = [uri.get(name) for name in values.POSITION_PARAMETERS]
    if all(text is None for text in texts):
        initial = generator.randint(INT32[0], INT32[-1])
        return initial, initial, 0, False
    if any(text is None for text in texts):
        names = " ".join(values.POSITION_PARAMETERS)
        raise invalid_channel(f"params must be used as a complete set: {names} channel={uri}")
    initial, term_id, offset = (
        values.publication_int(text or "", name) for text, name in zip(texts, values.POSITION_PARAMETERS, strict=True)
    )
    if offset > term_length:
        raise invalid_channel(f"term-offset={offset} > term-length={term_length}: channel={uri}")
    if not 0 <= offset <= MAX_TERM_LENGTH:
        raise invalid_channel(f"term-offset={offset} out of range: channel={uri}")
    if offset % FRAME_ALIGNMENT:
        raise invalid_channel(f"term-offset={offset} must be a multiple of FRAME_ALIGNMENT: channel={uri}")
    if values.term_distance(term_id, initial) < 0:
        raise invalid_channel(
            f"difference greater than 2^31 - 1: init-term-id={initial} when term-id={term_id} channel={uri}"
        )
    return initial, term_id, offset, True
