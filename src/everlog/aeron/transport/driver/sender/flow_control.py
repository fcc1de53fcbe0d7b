"""How far a sender may go, by what its receivers say: one receiver (unicast), the fastest (max), the slowest (min), the
slowest of those with the sender's group tag (tagged). Source: FlowControl, UnicastFlowControl, MaxMulticastFlowControl,
AbstractMinMulticastFlowControl, TaggedMulticastFlowControl.

Machines of the sender's thread: positions and times in, the sender's limit out. ``has_required_receivers`` is read by
the conductor, too; it is one attribute, replaced as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.channel_parameters import INT32, INT64, parse_duration_ns, parse_number, wrong
from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, JavaException, ascii_number
from everlog.aeron.transport.protocol.wire import SM_EOS, ErrorFrame, StatusMessage

FC = "fc"
MAX, MIN, TAGGED = "max", "min", "tagged"
MULTICAST_STRATEGIES = (MAX, MIN, TAGGED)
INITIAL_WINDOW_LENGTH = 128 << 10
"""A receiver's window by default, by which retransmissions are limited, whatever the receivers' own is."""
MAX_RECEIVERS = 4096
"""Of one publication. Whoever reaches its socket can tell of receivers: more than these are not waited for."""
NO_LIMIT = (1 << 63) - 1
_NONE = -1
_PREFERRED_FEEDBACK = b"\xff\xff\xff\xff"
"""What preferred receivers wrote behind status messages before there were group tags."""


class ReceiverCounter(Protocol):
    """Where a strategy shows how many receivers it has."""

    def set_release(self, value: int) -> None:
        """Show a number."""

    def close(self) -> None:
        """The counter is needed no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """A driver's defaults, which a channel's ``fc`` goes before. ``multicast`` is one of ``MULTICAST_STRATEGIES``;
    window multiples say how many windows of a receiver a NAK is answered with at most."""

    multicast: str = MAX
    receiver_timeout_ns: int = 5_000_000_000
    group_tag: int = -1
    group_min_size: int = 0
    unicast_window_multiple: int = 16
    multicast_window_multiple: int = 4


class FlowControl:
    """Of a stream with one receiver, or one that follows its fastest: the limit is where the window of whoever spoke
    last ends, if that is farther than before."""

    has_required_receivers = True
    wants_receiver_counter = False

    def __init__(self, window_multiple: int) -> None:
        self._window_multiple = window_multiple

    def on_status_message(self, message: StatusMessage, position: int, sender_limit: int, now_ns: int) -> int:
        """The new limit. ``position`` is the receiver's, computed of its term id and offset."""
        return max(sender_limit, position + message.receiver_window_length)

    def on_trigger_send_setup(self, message: StatusMessage, now_ns: int) -> None:
        """A receiver asked for a setup frame."""

    def on_setup(self, sender_limit: int, now_ns: int) -> None:
        """A setup frame that was asked for is sent."""

    def on_error(self, error: ErrorFrame, now_ns: int) -> None:
        """A receiver refused the stream."""

    def on_idle(self, now_ns: int, sender_limit: int) -> int:
        """The new limit when there was nothing to send."""
        return sender_limit

    def max_retransmission_length(self, term_offset: int, resend_length: int, term_length: int) -> int:
        """How much of what a NAK asks for is sent: some receiver's windows, and nothing behind the term."""
        window = min(INITIAL_WINDOW_LENGTH, term_length >> 1) * self._window_multiple
        return min(term_length - term_offset, window, resend_length)

    def close(self) -> None:
        """Free the counter, if there is one."""


class MaxFlowControl(FlowControl):
    """The fastest receiver of many says how far the sender goes; the others lose what they can't take."""


@dataclass(slots=True)
class _Receiver:
    last_position: int
    limit: int
    time_of_last_status_message_ns: int
    has_left: bool = False


class MinFlowControl(FlowControl):
    """The slowest receiver of many says how far the sender goes. One that is silent for ``receiver_timeout_ns`` counts
    no more. While there are fewer than ``group_min_size``, the limit stays and the publication is not connected."""

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
        """Receivers that count."""
        return len(self._receivers)

    def matches(self, group_tag: int | None, feedback: bytes = b"") -> bool:
        """Whether a receiver with that tag counts."""
        return True

    def on_status_message(self, message: StatusMessage, position: int, sender_limit: int, now_ns: int) -> int:
        """The new limit."""
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
        # One that lags more than its window behind all others is not waited for.
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
        """Remember that a receiver that counts will come."""
        if self.matches(message.group_tag, message.feedback):
            self._is_setup_triggered = True

    def on_setup(self, sender_limit: int, now_ns: int) -> None:
        """Stay where the limit is for a while, so that the receiver that comes finds what it is told of."""
        if self._is_setup_triggered and self._receivers:
            self._time_of_last_setup_ns = now_ns
            self._setup_limit = sender_limit
        self._is_setup_triggered = False

    def on_error(self, error: ErrorFrame, now_ns: int) -> None:
        """The receiver leaves."""
        receiver = self._receivers.get(error.receiver_id)
        if receiver is not None and self.matches(error.group_tag):
            receiver.has_left = True

    def on_idle(self, now_ns: int, sender_limit: int) -> int:
        """Forget receivers that left or are silent. Unlike a status message, this may take the limit back."""
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
        """Free the counter, if there is one."""
        if self.receiver_counter is not None:
            self.receiver_counter.close()

    def _lowest(self, now_ns: int) -> int:
        """Of the receivers' limits and that of a setup."""
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
    """As :class:`MinFlowControl`, of the receivers whose group tag is ``group_tag``; the others take what they can."""

    def __init__(self, window_multiple: int, receiver_timeout_ns: int, group_min_size: int, group_tag: int) -> None:
        super().__init__(window_multiple, receiver_timeout_ns, group_min_size)
        self.group_tag = group_tag

    def matches(self, group_tag: int | None, feedback: bytes = b"") -> bool:
        """Whether it has the tag, or is a preferred receiver of old."""
        return group_tag == self.group_tag if group_tag is not None else feedback.startswith(_PREFERRED_FEEDBACK)


@dataclass(frozen=True, slots=True)
class FlowControlParameters:
    """What ``fc=NAME,g:TAG/MIN,t:TIMEOUT,rrwm:WINDOWS`` says; ``None`` for what it does not. Other words are for other
    versions."""

    name: str
    group_tag: int | None = None
    group_min_size: int | None = None
    timeout_ns: int | None = None
    window_multiple: int | None = None

    @classmethod
    def parse(cls, text: str) -> FlowControlParameters:
        """Raises :class:`InvalidChannel` that names ``fc``."""
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
    """The strategy of a channel, by its ``fc``. ``has_many_receivers``: multicast, or several destinations. Raises
    :class:`InvalidChannel` that names ``fc``."""
    text = uri.get(FC)
    if not has_many_receivers:
        if text is not None:
            raise _unsupported("unicast", text, "none: a unicast channel has one receiver")
        return FlowControl(settings.unicast_window_multiple)
    parameters = FlowControlParameters(settings.multicast) if text is None else FlowControlParameters.parse(text)
    multiple = parameters.window_multiple or settings.multicast_window_multiple
    if parameters.name == MAX:
        return MaxFlowControl(multiple)
    if parameters.name not in MULTICAST_STRATEGIES:
        raise _unsupported("multicast", parameters.name, ", ".join(MULTICAST_STRATEGIES))
    timeout_ns = _first(parameters.timeout_ns, settings.receiver_timeout_ns)
    minimum = _first(parameters.group_min_size, settings.group_min_size)
    if parameters.name == MIN:
        return MinFlowControl(multiple, timeout_ns, minimum)
    return TaggedFlowControl(multiple, timeout_ns, minimum, _first(parameters.group_tag, settings.group_tag))


def _window_multiple(text: str) -> int:
    value = parse_number(FC, text, INT32)
    if value <= 0:
        java = JavaException(ILLEGAL_ARGUMENT, f"Invalid retransmit receiver window multiple: {value}")
        raise wrong(FC, repr(text), "a number from 1 on", java)
    return value


def _first(asked: int | None, default: int) -> int:
    return default if asked is None else asked


def _unsupported(kind: str, found: str, expected: str) -> InvalidChannel:
    said = f"unsupported {kind} flow control strategy: fc={found}"
    return wrong(FC, said, expected, JavaException(ILLEGAL_ARGUMENT, said))
