"""Flow control strategies, which set the sender's limit from its receivers' status messages: the only receiver
(unicast), the fastest (max), the slowest (min), the slowest of those with the sender's group tag (tagged). Source:
FlowControl, UnicastFlowControl, MaxMulticastFlowControl, AbstractMinMulticastFlowControl, TaggedMulticastFlowControl.

Strategies run on the sender's thread and are pure state machines: positions and times in, the sender's limit out. The
conductor's thread also reads ``has_required_receivers``, a single attribute that is replaced atomically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.channel_parameters import INT32, INT64, parse_duration_ns, parse_number, wrong
from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, JavaException, ascii_number
from everlog.aeron.transport.driver.settings.choices import MulticastFlowControl
from everlog.aeron.transport.protocol.wire import SM_EOS, ErrorFrame, StatusMessage

FC = "fc"
MAX, MIN, TAGGED = "max", "min", "tagged"
MULTICAST_STRATEGIES = (MAX, MIN, TAGGED)
INITIAL_WINDOW_LENGTH = 128 << 10
"""A receiver's default window. It limits retransmissions, whatever window the receivers actually have."""
MAX_RECEIVERS = 4096
"""Most receivers that a publication tracks, because anyone who reaches its socket can announce receivers."""
NO_LIMIT = (1 << 63) - 1
_NONE = -1
_PREFERRED_FEEDBACK = b"\xff\xff\xff\xff"
"""The feedback that preferred receivers appended to status messages before group tags existed."""


class ReceiverCounter(Protocol):
    """The counter that publishes how many receivers a strategy tracks."""

    def set_release(self, value: int) -> None:
        """Publish a number."""

    def close(self) -> None:
        """Free the counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """A driver's defaults; a channel's ``fc`` overrides them. ``multicast`` is one of ``MULTICAST_STRATEGIES``. A
    window multiple limits the answer to a NAK to that many windows of a receiver."""

    multicast: MulticastFlowControl = "max"
    receiver_timeout_ns: int = 5_000_000_000
    group_tag: int = -1
    group_min_size: int = 0
    unicast_window_multiple: int = 16
    multicast_window_multiple: int = 4


class FlowControl:
    """Flow control for a single receiver, or by the fastest receiver: the limit is the farthest end of a window that
    any status message announced."""

    has_required_receivers = True
    wants_receiver_counter = False

    def __init__(self, window_multiple: int) -> None:
        self._window_multiple = window_multiple

    def on_status_message(self, message: StatusMessage, position: int, sender_limit: int, now_ns: int) -> int:
        """Return the new limit. ``position`` is the receiver's position, computed from its term id and offset."""
        return max(sender_limit, position + message.receiver_window_length)

    def on_trigger_send_setup(self, message: StatusMessage, now_ns: int) -> None:
        """Handle a receiver's request for a setup frame."""

    def on_setup(self, sender_limit: int, now_ns: int) -> None:
        """Handle the sending of a requested setup frame."""

    def on_error(self, error: ErrorFrame, now_ns: int) -> None:
        """Handle a receiver's error frame, which rejects the stream."""

    def on_idle(self, now_ns: int, sender_limit: int) -> int:
        """Return the new limit after a cycle in which nothing was sent."""
        return sender_limit

    def max_retransmission_length(self, term_offset: int, resend_length: int, term_length: int) -> int:
        """How many of the bytes that a NAK requests to resend: at most the window multiple, and none after the term's
        end."""
        window = min(INITIAL_WINDOW_LENGTH, term_length >> 1) * self._window_multiple
        return min(term_length - term_offset, window, resend_length)

    def close(self) -> None:
        """Free the receivers counter, if the strategy has one."""


class MaxFlowControl(FlowControl):
    """Multicast flow control by the fastest receiver. Slower receivers may lose data."""


@dataclass(slots=True)
class _Receiver:
    last_position: int
    limit: int
    time_of_last_status_message_ns: int
    has_left: bool = False


class MinFlowControl(FlowControl):
    """Multicast flow control by the slowest receiver. A receiver that is silent for ``receiver_timeout_ns`` no longer
    counts. With fewer than ``group_min_size`` receivers, the limit stays and the publication is not connected."""

    wants_receiver_counter = True

    def __init__(self, window_multiple: int, receiver_timeout_ns: int, group_min_size: int) -> None:
        super().__init__(window_multiple)
        self.receiver_timeout_ns = receiver_timeout_ns
        self.group_min_size = group_min_size
        self.has_required_receivers = group_min_size <= 0
        self.receiver_counter: ReceiverCounter | None = None
        self._receivers: dict[int, _Receiver] = {}
        self._is_setup_triggered = False
        self._setup_limit = _NONE
        self._time_of_last_setup_ns = 0

    @property
    def receiver_count(self) -> int:
        """Number of receivers that count."""
        return len(self._receivers)

    def matches(self, group_tag: int | None, feedback: bytes = b"") -> bool:
        """Whether a receiver with a group tag counts."""
        return True

    def on_status_message(self, message: StatusMessage, position: int, sender_limit: int, now_ns: int) -> int:
        """Track the receiver, and return the new limit."""
        window = message.receiver_window_length
        limit = position + window
        counts = self.matches(message.group_tag, message.feedback)
        has_left = bool(message.flags & SM_EOS)
        known = self._receivers.get(message.receiver_id) if counts else None
        if known is not None:
            known.has_left = has_left
            known.last_position = max(position, known.last_position)
            known.limit = limit
            known.time_of_last_status_message_ns = now_ns
        lowest = self._lowest(now_ns)
        # A new receiver is not added if it lags the slowest one by more than its window.
        is_near = not self._receivers or limit >= lowest - window
        has_room = len(self._receivers) < MAX_RECEIVERS
        if counts and known is None and not has_left and is_near and has_room:
            self._receivers[message.receiver_id] = _Receiver(position, limit, now_ns)
            self._count_receivers()
            self._setup_limit = _NONE
            lowest = min(lowest, limit)
        if len(self._receivers) < self.group_min_size:
            return sender_limit
        return max(sender_limit, lowest if self._receivers else limit)

    def on_trigger_send_setup(self, message: StatusMessage, now_ns: int) -> None:
        """Note that a receiver that counts is about to join."""
        if self.matches(message.group_tag, message.feedback):
            self._is_setup_triggered = True

    def on_setup(self, sender_limit: int, now_ns: int) -> None:
        """Hold the limit for a while, so that the joining receiver still gets the data after the setup's position."""
        if self._is_setup_triggered and self._receivers:
            self._time_of_last_setup_ns = now_ns
            self._setup_limit = sender_limit
        self._is_setup_triggered = False

    def on_error(self, error: ErrorFrame, now_ns: int) -> None:
        """Mark the receiver as having left."""
        receiver = self._receivers.get(error.receiver_id)
        if receiver is not None and self.matches(error.group_tag):
            receiver.has_left = True

    def on_idle(self, now_ns: int, sender_limit: int) -> int:
        """Remove receivers that left or are silent, and return the new limit. Unlike a status message, this may lower
        the limit."""
        left = [
            receiver_id
            for receiver_id, receiver in self._receivers.items()
            if receiver.has_left or receiver.time_of_last_status_message_ns + self.receiver_timeout_ns < now_ns
        ]
        if left:
            for receiver_id in left:
                del self._receivers[receiver_id]
            self._count_receivers()
        lowest = self._lowest(now_ns)
        return lowest if self._receivers and len(self._receivers) >= self.group_min_size else sender_limit

    def close(self) -> None:
        """Free the receivers counter, if the strategy has one."""
        if self.receiver_counter is not None:
            self.receiver_counter.close()

    def _lowest(self, now_ns: int) -> int:
        """The lowest of the receivers' limits and a setup's limit."""
        lowest = self._limit_of_setup(now_ns)
        for receiver in self._receivers.values():
            if receiver.limit < lowest:
                lowest = receiver.limit
        return lowest

    def _limit_of_setup(self, now_ns: int) -> int:
        if self._setup_limit != _NONE and self._time_of_last_setup_ns + self.receiver_timeout_ns < now_ns:
            self._setup_limit = _NONE
        return NO_LIMIT if self._setup_limit == _NONE else self._setup_limit

    def _count_receivers(self) -> None:
        self.has_required_receivers = len(self._receivers) >= self.group_min_size
        if self.receiver_counter is not None:
            self.receiver_counter.set_release(len(self._receivers))


class TaggedFlowControl(MinFlowControl):
    """Multicast flow control by the slowest receiver with the group tag ``group_tag``. Others may lose data."""

    def __init__(self, window_multiple: int, receiver_timeout_ns: int, group_min_size: int, group_tag: int) -> None:
        super().__init__(window_multiple, receiver_timeout_ns, group_min_size)
        self.group_tag = group_tag

    def matches(self, group_tag: int | None, feedback: bytes = b"") -> bool:
        """Whether a receiver has the tag, or is a preferred receiver of Aeron before group tags."""
        return group_tag == self.group_tag if group_tag is not None else feedback.startswith(_PREFERRED_FEEDBACK)


@dataclass(frozen=True, slots=True)
class FlowControlParameters:
    """The parameters of ``fc=NAME,g:TAG/MIN,t:TIMEOUT,rrwm:WINDOWS``; ``None`` for missing ones. Unknown parameters are
    ignored."""

    name: str
    group_tag: int | None = None
    group_min_size: int | None = None
    timeout_ns: int | None = None
    window_multiple: int | None = None

    @classmethod
    def parse(cls, text: str) -> FlowControlParameters:
        """Parse a channel's ``fc``. Raises :class:`InvalidChannel` that names ``fc``."""
        name, *words = text.split(",")
        found: dict[str, int] = {}
        for word in words:
            key, _, value = word.partition(":")
            if key == "t":
                found["timeout_ns"] = parse_duration_ns(FC, value, "fc receiver timeout")
            elif key == "rrwm":
                found["window_multiple"] = _window_multiple(value)
            elif key == "g":
                tag, slash, minimum = value.partition("/")
                if name == TAGGED and (tag or not slash):
                    found["group_tag"] = parse_number(FC, tag, INT64, ascii_number(tag, "long", len("g:")))
                if slash:
                    java = ascii_number(minimum, "int", len("g:/") + len(tag))
                    found["group_min_size"] = parse_number(FC, minimum, INT32, java)
        return cls(name, **found)


def flow_control_for(uri: ChannelUri, settings: FlowControlSettings, *, has_many_receivers: bool) -> FlowControl:
    """Choose a channel's strategy from its ``fc``. ``has_many_receivers`` is true for multicast and for multiple
    destinations. Raises :class:`InvalidChannel` that names ``fc``."""
    text = uri.get(FC)
    if not has_many_receivers:
        if text is not None:
            raise _unsupported("unicast", text, "absent on a unicast channel")
        return FlowControl(settings.unicast_window_multiple)
    parameters = FlowControlParameters(settings.multicast) if text is None else FlowControlParameters.parse(text)
    multiple = parameters.window_multiple or settings.multicast_window_multiple
    if parameters.name == MAX:
        return MaxFlowControl(multiple)
    if parameters.name not in MULTICAST_STRATEGIES:
        raise _unsupported("multicast", parameters.name, "'max', 'min' or 'tagged'")
    timeout_ns = _first(parameters.timeout_ns, settings.receiver_timeout_ns)
    minimum = _first(parameters.group_min_size, settings.group_min_size)
    if parameters.name == MIN:
        return MinFlowControl(multiple, timeout_ns, minimum)
    return TaggedFlowControl(multiple, timeout_ns, minimum, _first(parameters.group_tag, settings.group_tag))


def _window_multiple(text: str) -> int:
    value = parse_number(FC, text, INT32)
    if value <= 0:
        java = JavaException(ILLEGAL_ARGUMENT, f"Invalid retransmit receiver window multiple: {value}")
        raise wrong(FC, repr(text), "a number of at least 1", java)
    return value


def _first(asked: int | None, default: int) -> int:
    return default if asked is None else asked


def _unsupported(kind: str, found: str, expected: str) -> InvalidChannel:
    java = JavaException(ILLEGAL_ARGUMENT, f"unsupported {kind} flow control strategy: fc={found}")
    return wrong(FC, repr(found), expected, java)
