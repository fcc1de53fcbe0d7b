"""Publications that are recorded and replays that are read, over a simulated driver."""

from __future__ import annotations

import random
from typing import Any

from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import RecordingDescriptor, ReplayParams
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import HEADER_LENGTH, align
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.errors import EverlogError
from everlog.testing.archive.connections import request_channel
from everlog.testing.archive.published import (
    MTU_LENGTH,
    TERM_LENGTH,
    Published,
    PublishedStream,
    Reading,
    message_of,
)


class StreamPublisher:
    """Publishes messages, from the stop position of an extended recording on if there is one."""

    def __init__(
        self,
        aeron: Aeron,
        published: Published,
        channel: str,
        stream_id: int,
        extended: RecordingDescriptor | None,
        *,
        is_spied: bool,
    ) -> None:
        params: dict[str, str | None] = {"term-length": str(TERM_LENGTH), "mtu": str(MTU_LENGTH)}
        if is_spied:
            params["ssc"] = "true"
        position = 0
        if extended is not None and extended.stop_position is not None:
            position, initial = extended.stop_position, extended.initial_term_id
            params["init-term-id"] = str(initial)
            params["term-id"] = str(term_id_of(position, initial, TERM_LENGTH))
            params["term-offset"] = str(term_offset_of(position, TERM_LENGTH))
        self._published = published
        self._position = position
        self._adding: Any = aeron.async_add_exclusive_publication(
            str(ChannelUri.parse(channel).with_params(params)), stream_id
        )
        self._publication: Any = None
        self._stream: PublishedStream | None = None

    def step(self, generator: random.Random) -> None:
        """Publish something, or nothing."""
        if self._publication is None:
            self._begin()
        elif self._stream is not None and generator.random() < 0.3:
            for _ in range(generator.choice((1, 2, 8))):
                message = message_of(generator)
                end = self._publication.offer(message)
                if end <= 0:
                    return
                self._stream.add(end, message)

    def _begin(self) -> None:
        if self._adding is None or not self._adding.done:
            return
        adding, self._adding = self._adding, None
        try:
            self._publication = adding.result()
        except EverlogError:
            return
        self._stream = self._published.begin(self._publication.session_id, self._position)

    def close(self) -> None:
        """End the stream."""
        if self._publication is not None:
            self._publication.close()
        elif self._adding is not None:
            self._adding.cancel()


class ReplayReader:
    """Subscribes to a replay and checks what comes."""

    def __init__(
        self,
        aeron: Aeron,
        published: Published,
        recording_id: int,
        params: ReplayParams,
        channel: str,
        stream_id: int,
    ) -> None:
        self.recording_id, self.params = recording_id, params
        self.channel, self.stream_id = channel, stream_id
        self.count = 0
        self.is_asked = self.has_ended = False
        self._published = published
        self._adding: Any = aeron.async_add_subscription(channel, stream_id)
        self._subscription: Any = None
        self._image: Image | None = None
        self._reading: Reading | None = None
        self._complaint: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the driver has subscribed."""
        return self._subscription is not None

    def step(self) -> str | None:
        """Read what has come; returns what is wrong with it."""
        if self._subscription is None:
            if self._adding is not None and self._adding.done:
                adding, self._adding = self._adding, None
                try:
                    self._subscription = adding.result()
                except EverlogError:
                    self.has_ended = True
            return None
        if self._image is None:
            if not self._subscription.images:
                return None
            self._image = self._subscription.images[0]
            first = self._image.join_position
            self._reading = Reading(self._published, self.recording_id, first)
            if self.params.position not in (None, first):
                return f"the replay {self.params} begins at {first}"
        self._image.poll(self._take, 50)
        if self._image.is_closed or self._image.is_end_of_stream:
            self.has_ended = True
        return self._complaint

    def _take(self, payload: bytes, header: Any) -> None:
        begin = header.position - align(HEADER_LENGTH + len(payload))
        assert self._reading is not None
        self.count += 1
        self._complaint = self._complaint or self._reading.take(begin, payload)

    def close(self) -> None:
        """Unsubscribe."""
        if self._subscription is not None:
            self._subscription.close()
        elif self._adding is not None:
            self._adding.cancel()


class ResponseReplayReader(ReplayReader):
    """A replay over a response channel: asked for over a publication of its own, with a token."""

    def __init__(
        self,
        aeron: Aeron,
        published: Published,
        recording_id: int,
        params: ReplayParams,
        channel: str,
        stream_id: int,
        options: ArchiveClientOptions,
        token: int,
    ) -> None:
        super().__init__(aeron, published, recording_id, params, channel, stream_id)
        self.token = token
        self.token_ns = 0
        """When the token was asked for."""
        self._aeron = aeron
        self._options = options
        self._asking: Any = None
        self._requests: ExclusivePublication | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the archive hears what is asked over the publication."""
        return self._requests is not None and self._requests.is_connected

    def step(self) -> str | None:
        """Add the publication, then read what has come."""
        if self._subscription is not None and self._requests is None:
            self._add_requests()
        return super().step()

    def _add_requests(self) -> None:
        if self._asking is None:
            channel = request_channel(self._options, self._subscription.registration_id)
            self._asking = self._aeron.async_add_exclusive_publication(channel, self._options.control_request_stream_id)
        if self._asking.done:
            asking, self._asking = self._asking, None
            try:
                self._requests = asking.result()
            except EverlogError:
                self.has_ended = True

    def send(self, data: bytes) -> bool:
        """Ask. Returns whether there was room for it."""
        return self._requests is not None and self._requests.offer(data) > 0

    def close(self) -> None:
        """Unsubscribe, and give back the publication."""
        super().close()
        if self._requests is not None:
            self._requests.close()
        elif self._asking is not None:
            self._asking.cancel()
