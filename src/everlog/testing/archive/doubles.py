"""Stands in for a client of a media driver under a live archive: registrations that come late or are refused, streams
without a transport, which the simulated clients fill and read."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END, HEADER_LENGTH, TYPE_DATA, TYPE_PADDING, align
from everlog.aeron.frames.framing_inputs import framed_length
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.results import ADMIN_ACTION, BACK_PRESSURED, CLOSED, NOT_CONNECTED
from everlog.aeron.transport.client.conducting.runner import Clock
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.kernel.memory import Memory
from everlog.testing.archive.published import MAX_PAYLOAD, MTU_LENGTH, TERM_LENGTH, PublishedStream
from everlog.time_units import NS_PER_S

COUNTERS = 256
WINDOW = TERM_LENGTH // 2
INITIAL_TERM = 5


class Adding:
    """A registration that the driver answers after some cycles."""

    def __init__(self, make: Callable[[], Any], cycles: int, refusal: RegistrationRefused | None = None) -> None:
        self._make = make
        self._cycles = cycles
        self._refusal = refusal
        self._made: Any = None
        self.is_cancelled = False

    @property
    def done(self) -> bool:
        """Whether the driver has answered."""
        return self._cycles <= 0

    def turn(self) -> None:
        """Let a cycle pass."""
        self._cycles -= 1
        if self._cycles == 0 and self._refusal is None and not self.is_cancelled:
            self._made = self._make()

    def result(self) -> Any:
        """Wait for the answer."""
        while not self.done:
            self.turn()
        if self._refusal is not None:
            raise self._refusal
        return self._made

    def cancel(self) -> None:
        """Give up."""
        self.is_cancelled = True


class CountedDouble:
    """A counter."""

    def __init__(self, counters: Counters, type_id: int, label: str, key: bytes, registration_id: int) -> None:
        self._counters = counters
        self._counter = counters.allocate(type_id, key, label, registration_id=registration_id)
        self.counter_id = self._counter.id
        self.registration_id = registration_id
        self.is_closed = False

    @property
    def value(self) -> int:
        """The value."""
        return self._counters.value(self.counter_id)

    @value.setter
    def value(self, value: int) -> None:
        assert not self.is_closed
        self._counter.set(value)

    def close(self) -> None:
        """Free it."""
        if not self.is_closed:
            self.is_closed = True
            self._counters.free(self.counter_id)


class Frame:
    """A frame as a client reads it."""

    def __init__(self, begin: int, payload: bytes, session_id: int = 0) -> None:
        self.flags = FLAG_BEGIN | FLAG_END
        self.begin = begin
        self.payload = payload
        self.session_id = session_id


class ControlImage:
    """A client's requests on their way to the archive."""

    def __init__(self, correlation_id: int, session_id: int) -> None:
        self.correlation_id, self.session_id, self.stream_id = correlation_id, session_id, 10
        self.source_identity = "aeron:ipc"
        self.is_closed = False
        self.log = self.scan = None
        self.requests: deque[bytes] = deque()
        self.rejections: list[str] = []

    def poll(self, handler: Callable[[bytes, Any], object], limit: int) -> int:
        """Hand over requests."""
        for count in range(limit):
            if self.is_closed or not self.requests:
                return count
            data = self.requests.popleft()
            handler(data, Frame(0, data, self.session_id))
        return limit

    def reject(self, reason: str) -> None:
        """Note that the archive rejects the client."""
        self.rejections.append(reason)


class RecordedImage:
    """A publication that is recorded: frames that the archive has not polled yet."""

    def __init__(self, stream: PublishedStream, stream_id: int) -> None:
        self.stream = stream
        self.session_id, self.stream_id = stream.session_id, stream_id
        self.initial_term_id, self.term_buffer_length, self.mtu_length = INITIAL_TERM, TERM_LENGTH, MTU_LENGTH
        self.join_position = stream.end
        self.source_identity = "aeron:ipc"
        self.is_closed = self.is_ending = False
        self.log = self.scan = None
        self._blocks: deque[tuple[int, bytes]] = deque()

    @property
    def is_end_of_stream(self) -> bool:
        """Whether the publication was closed and all of it is read."""
        return self.is_ending and not self._blocks

    def publish(self, payload: bytes) -> None:
        """Add a message, behind padding if the term has no room for it."""
        at, length = self.stream.end, framed_length(len(payload), MAX_PAYLOAD)
        left = TERM_LENGTH - at % TERM_LENGTH
        if length > left:
            self._blocks.append((at, self._header(at, left, TYPE_PADDING)))
            at += left
        self.stream.add(at + length, payload)
        end = at + length
        while at < end:
            part = self.stream.frames[at]
            data = self._header(at, HEADER_LENGTH + len(part), TYPE_DATA) + part
            self._blocks.append((at, data.ljust(align(len(data)), b"\0")))
            at += align(HEADER_LENGTH + len(part))

    def _header(self, at: int, length: int, kind: int) -> bytes:
        place = at % TERM_LENGTH, self.session_id, self.stream_id, INITIAL_TERM + at // TERM_LENGTH
        return DataHeader.struct.pack(length, 0, FLAG_BEGIN | FLAG_END, kind, *place, 0)

    def block_poll(self, handler: Callable[[memoryview, int, int], object], limit: int) -> int:
        """Hand over whole frames of one term; padding comes alone."""
        if self.is_closed or not self._blocks:
            return 0
        first = self._blocks[0][0]
        block = b""
        while self._blocks:
            at, data = self._blocks[0]
            length = DataHeader.unpack_from(data).frame_length
            is_padding = len(data) < align(length)
            if (
                at // TERM_LENGTH != first // TERM_LENGTH
                or len(block) + align(length) > limit
                or (block and is_padding)
            ):
                break
            self._blocks.popleft()
            block += data
            if is_padding:
                break
        handler(memoryview(block), self.session_id, INITIAL_TERM + first // TERM_LENGTH)
        return len(block)


class SubscribedDouble:
    """A subscription."""

    def __init__(self, registration_id: int, channel: str, stream_id: int, on_image: Any, on_gone: Any) -> None:
        self.registration_id, self.channel, self.stream_id = registration_id, channel, stream_id
        self.on_image, self.on_gone = on_image, on_gone
        self.images: tuple[Any, ...] = ()
        self.is_closed = False

    def resolved_channel(self) -> str:
        """The channel as it is."""
        return self.channel

    def close(self) -> None:
        """Close it with its images."""
        self.is_closed = True
        for image in self.images:
            image.is_closed = True


class PublishedDouble:
    """An exclusive publication of the archive: answers, or a replay. ``listens`` tells whether a client has
    subscribed."""

    def __init__(
        self,
        registration_id: int,
        channel: str,
        stream_id: int,
        listens: Callable[[int], bool],
        generator: random.Random,
    ) -> None:
        self.registration_id, self.channel, self.stream_id = registration_id, channel, stream_id
        self.session_id = generator.getrandbits(32) - (1 << 31)
        self.messages: deque[bytes] = deque()
        self.frames: deque[Frame] = deque()
        self.is_closed = self.is_revoked = self.is_stuck = False
        self.refuses = 0.02
        """How often there is no room, by accident."""
        self._listens = listens
        self._random = generator
        self._used = 0
        uri = ChannelUri.parse(channel)
        place = [uri.get(name) for name in ("init-term-id", "term-id", "term-offset")]
        self.position = 0
        if None not in place:
            initial, term, offset = (int(each or 0) for each in place)
            self.position = (term - initial) * TERM_LENGTH + offset
        self.first_position = self.position

    @property
    def is_connected(self) -> bool:
        """Whether a client listens."""
        return not self.is_closed and self._listens(self.stream_id)

    @property
    def available_window(self) -> int:
        """Bytes that may be appended now."""
        return 0 if self.is_stuck else WINDOW - self._used

    def offer(self, data: bytes) -> int:
        """Send an answer."""
        result = self._state(len(data) + HEADER_LENGTH)
        if result > 0:
            self.messages.append(bytes(data))
        return result

    def _state(self, length: int) -> int:
        if self.is_closed:
            return CLOSED
        if not self.is_connected:
            return NOT_CONNECTED
        if self.is_stuck or self._used >= WINDOW or self._random.random() < self.refuses:
            return self._random.choice((BACK_PRESSURED, ADMIN_ACTION))
        self._used += length
        return 1 + self._used

    def append_block(self, block: memoryview) -> int:
        """Append whole frames: they must belong here."""
        result = self._state(len(block))
        if result <= 0:
            return result
        at = 0
        while at < len(block):
            header = DataHeader.unpack_from(block, at)
            place = header.session_id, header.stream_id, header.term_id * TERM_LENGTH + header.term_offset
            assert place == (self.session_id, self.stream_id, INITIAL_TERM * TERM_LENGTH + self.position), place
            payload = bytes(block[at + HEADER_LENGTH : at + header.frame_length])
            self.frames.append(Frame(self.position, payload))
            at += align(header.frame_length)
            self.position += align(header.frame_length)
        assert at == len(block)
        return result

    def append_padding(self, length: int) -> int:
        """Append padding to the end of the term."""
        result = self._state(HEADER_LENGTH + length)
        if result > 0:
            self.position += align(HEADER_LENGTH + length)
            assert self.position % TERM_LENGTH == 0
        return result

    def read(self) -> None:
        """The client has read everything."""
        self.messages.clear()
        self.frames.clear()
        self._used = 0

    def close(self) -> None:
        """End the stream."""
        self.is_closed = True

    def revoke(self) -> None:
        """End the stream at once."""
        self.is_closed = self.is_revoked = True


class DriverClientDouble:
    """The archive's client of a driver that answers in its own time. ``listens`` tells for a stream id whether a client
    has subscribed; ``clock`` is the simulation's."""

    def __init__(self, generator: random.Random, listens: Callable[[int], bool], clock: Clock) -> None:
        self.clock = clock
        self._random = generator
        self._listens = listens
        self._ids = itertools.count(1000)
        self._memory = Counters(Memory.allocate(COUNTERS * 512), Memory.allocate(COUNTERS * 128))
        self._adding: list[Adding] = []
        self.counters = CountersReader(self._memory.metadata, self._memory.values)
        self.subscriptions: list[SubscribedDouble] = []
        self.publications: dict[int, PublishedDouble] = {}
        self.is_closed = False
        self.failure = None
        self.client_id = 1
        self.words = (Memory.allocate(8), 0, Memory.allocate(8), 0)

    def next_id(self) -> int:
        """An id that was not used before."""
        return next(self._ids)

    def _later(self, make: Callable[[], Any], *, may_refuse: bool = False) -> Any:
        refusal = None
        if may_refuse and self._random.random() < 0.05:
            refusal = RegistrationRefused.of("add-publication", 10, "try again")
        adding = Adding(make, self._random.randrange(1, 4), refusal)
        self._adding.append(adding)
        return adding

    def do_work(self) -> int:
        """Answer what is due."""
        self._memory.now_ms += 1
        for adding in self._adding:
            adding.turn()
        self._adding = [each for each in self._adding if not each.done]
        return 0

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 10.0, sleep_s: float = 0.001) -> bool:
        """Let the driver answer until a condition holds."""
        deadline_ns = self.clock.now_ns() + round(timeout_s * NS_PER_S)
        while not condition():
            if self.clock.now_ns() >= deadline_ns:
                return False
            self.do_work()
            self.clock.sleep(sleep_s)
        return True

    def add_subscription(self, channel: str, stream_id: int, on_image: Any = None, on_gone: Any = None) -> Any:
        """Subscribe."""
        added = SubscribedDouble(self.next_id(), channel, stream_id, on_image, on_gone)
        self.subscriptions.append(added)
        return added

    def async_add_subscription(
        self, channel: str, stream_id: int, on_available_image: Any = None, on_unavailable_image: Any = None
    ) -> Any:
        """Subscribe."""
        return self._later(lambda: self.add_subscription(channel, stream_id, on_available_image, on_unavailable_image))

    def add_counter(self, type_id: int, label: str, key: bytes = b"") -> Any:
        """Add a counter."""
        return CountedDouble(self._memory, type_id, label, key, self.next_id())

    def async_add_counter(self, type_id: int, label: str, key: bytes = b"") -> Any:
        """Add a counter."""
        return self._later(lambda: self.add_counter(type_id, label, key))

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> Any:
        """Add a publication, which may be refused for the moment."""
        return self._later(lambda: self._publication(channel, stream_id), may_refuse=True)

    def add_exclusive_publication(self, channel: str, stream_id: int) -> Any:
        """Add a publication that is never short of room by accident."""
        made = self._publication(channel, stream_id)
        made.refuses = 0.0
        return made

    def _publication(self, channel: str, stream_id: int) -> PublishedDouble:
        made = PublishedDouble(self.next_id(), channel, stream_id, self._listens, self._random)
        self.publications[stream_id] = made
        return made

    def arrive(self, image: RecordedImage) -> None:
        """Give an image to the subscriptions of its stream that are recorded."""
        for each in self.subscriptions:
            if not each.is_closed and each.stream_id == image.stream_id and each.on_image is not None:
                each.images += (image,)
                each.on_image(image)
