"""The checked parameters of a subscription's channel, with the driver's defaults. Source: SubscriptionParams."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.channel_parameters import MAX_INT32
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, MAX_TERM_LENGTH
from everlog.aeron.transport.driver.commands import uri_values as values
from everlog.aeron.transport.driver.commands.command_errors import illegal_argument, illegal_state
from everlog.aeron.transport.driver.commands.publication_params import untethered_timeouts
from everlog.aeron.transport.driver.settings.configuration import Configuration


@dataclass(frozen=True, slots=True)
class SubscriptionParams:
    """A subscription's parameters. A ``session_id`` of ``None`` accepts all sessions; a ``group`` of ``None`` is
    inferred from the channel."""

    session_id: int | None
    is_reliable: bool
    is_rejoin: bool
    is_sparse: bool
    is_tether: bool
    is_response: bool
    group: bool | None
    receiver_window_length: int
    untethered_window_limit_timeout_ns: int
    untethered_linger_timeout_ns: int
    untethered_resting_timeout_ns: int


def subscription_params(
    uri: ChannelUri, configuration: Configuration, publisher_term_length: int = 0
) -> SubscriptionParams:
    """Parse a subscription's channel. ``publisher_term_length`` is an image's, or 0 if it is unknown. Raises
    :class:`CommandRefused` with the texts of Java's driver."""
    session = uri.get("session-id")
    session_id = None if session is None else values.subscription_int(session)
    _check_position(uri)
    limit, linger, resting = untethered_timeouts(uri, configuration)
    return SubscriptionParams(
        session_id=session_id,
        is_reliable=values.flag(uri, "reliable", configuration.reliable_stream),
        is_rejoin=values.flag(uri, "rejoin", configuration.rejoin_stream),
        is_sparse=values.flag(uri, "sparse", configuration.term_buffer_sparse_file),
        is_tether=values.flag(uri, "tether", configuration.tether_subscriptions),
        is_response=values.is_response(uri),
        group=values.group(uri, configuration.receiver_group_consideration),
        receiver_window_length=_receiver_window(uri, configuration, publisher_term_length),
        untethered_window_limit_timeout_ns=limit,
        untethered_linger_timeout_ns=linger,
        untethered_resting_timeout_ns=resting,
    )


def _receiver_window(uri: ChannelUri, configuration: Configuration, publisher_term_length: int) -> int:
    asked = values.size(uri, "rcv-wnd") or 0
    if asked > MAX_INT32:
        raise illegal_argument(f"Invalid rcv-wnd length: {asked}")
    is_ipc = uri.media == "ipc"
    default = configuration.ipc_term_buffer_length if is_ipc else configuration.publication_term_buffer_length
    return min(asked or configuration.initial_window_length, (publisher_term_length or default) >> 1)


def _check_position(uri: ChannelUri) -> None:
    texts = [uri.get(name) for name in values.POSITION_PARAMETERS]
    if all(text is None for text in texts):
        return
    if any(text is None for text in texts):
        names = " ".join(values.POSITION_PARAMETERS)
        raise illegal_argument(f"params must be used as a complete set: {names} channel={uri}")
    initial, term_id, offset = (values.subscription_int(text or "") for text in texts)
    if not 0 <= offset <= MAX_TERM_LENGTH:
        raise illegal_argument(f"term-offset={offset} out of range: channel={uri}")
    if offset % FRAME_ALIGNMENT:
        raise illegal_argument(f"term-offset={offset} must be a multiple of FRAME_ALIGNMENT: channel={uri}")
    if values.term_distance(term_id, initial) < 0:
        raise illegal_state(
            f"difference greater than 2^31 - 1: init-term-id={initial} when term-id={term_id} channel={uri}"
        )
