"""Subscriptions of a client. Source: Aeron's Subscription."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Self

from everlog.aeron.channel_uri import SPY_PREFIX, ChannelUri
from everlog.aeron.transport.client.channel_state import NO_CHANNEL_STATUS, ChannelState
from everlog.aeron.transport.client.errors import closed_error
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_reader import Action, FragmentAssembler, Header, MessageColumns
from everlog.aeron.transport.client.options import ImageHandler
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.protocol.commands import AddRcvDestination, RemoveRcvDestination
from everlog.core.batch import Batch
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.aeron.transport.client.owner import Owner

FRAGMENT_LIMIT = 10
ASYNC_FRAGMENT_LIMIT = 256
ASYNC_SPINS = 100
ASYNC_SLEEP_SECONDS = 0.001
FragmentHandler = Callable[[bytes, Header], object]
ControlledFragmentHandler = Callable[[bytes, Header], Action | None]


class Subscription(ChannelState):
    """Receives one stream of a channel; has an :class:`Image` for each publication. Only one thread at a time may poll
    it; others may read its properties and close it. Close it, or use it in a ``with`` statement.

    After the client has ended, polls raise the error that ended it, for example :class:`DriverTimeout`. Polls of a
    subscription that the program closed return 0."""

    def __init__(
        self,
        owner: Owner,
        channel: str,
        stream_id: int,
        registration_id: int,
        handlers: tuple[ImageHandler | None, ImageHandler | None] = (None, None),
    ) -> None:
        self.channel = channel
        self.stream_id = stream_id
        self.registration_id = registration_id
        self.on_available_image, self.on_unavailable_image = handlers
        self.channel_status_id = NO_CHANNEL_STATUS
        """Id of the channel's status counter; -1 for IPC."""
        self.is_closed = False
        self._owner = owner
        self._images: tuple[Image, ...] = ()
        self.last_image: Image | None = None
        """The image that came last, even if it is unavailable again. Images may come and go between two polls."""
        self._next = 0
        self._columns: MessageColumns | None = None
        # Messages that `messages` has read but not yielded: a loop may stop at any message.
        self._unread: deque[tuple[bytes, Header]] = deque()
        append = self._unread.append
        self._assembler = FragmentAssembler(lambda payload, header: append((payload, header)))

    # Polling

    def poll(self, handler: FragmentHandler, fragment_limit: int = FRAGMENT_LIMIT) -> int:
        """Call ``handler(payload, header)`` for up to ``fragment_limit`` fragments, taking the images in turn. Returns
        the number of fragments. A message longer than the publication's ``max_payload_length`` arrives in several;
        wrap the handler in a :class:`FragmentAssembler` to get whole messages. An error of the handler propagates, and
        the fragment counts as read."""
        images = self._rotated_images()
        read = 0
        for image in images:
            read += image.poll(handler, fragment_limit - read)
            if read >= fragment_limit:
                break
        return read

    def controlled_poll(self, handler: ControlledFragmentHandler, fragment_limit: int = FRAGMENT_LIMIT) -> int:
        """Like :meth:`poll`, but the handler returns an :class:`Action`: ``ABORT`` ends the poll and delivers the
        fragment again later, ``BREAK`` ends the poll after it, ``COMMIT`` publishes the position at once, ``CONTINUE``
        or ``None`` continues."""
        images = self._rotated_images()
        read = 0
        for image in images:
            read += image.controlled_poll(handler, fragment_limit - read)
            if read >= fragment_limit:
                break
        return read

    def block_poll(self, handler: Callable[[memoryview, int, int], object], block_length_limit: int) -> int:
        """Call ``handler(block, session_id, term_id)`` with a block of raw frames of each image, up to
        ``block_length_limit`` bytes each. Returns the number of bytes. A block is valid only while the handler runs."""
        return sum(image.block_poll(handler, block_length_limit) for image in self._rotated_images())

    def raw_poll(self, handler: Callable[[int, memoryview, int, int], object], block_length_limit: int) -> int:
        """Like :meth:`block_poll`, with the block's offset in the log buffer's file as first argument of the
        handler."""
        return sum(image.raw_poll(handler, block_length_limit) for image in self._rotated_images())

    def poll_columns(self, columns: MessageColumns) -> int:
        """Read whole messages of one image into column buffers, replacing their contents; each call starts with another
        image. Returns the number of messages. The fastest way to read."""
        images = self._rotated_images()
        if not images:
            columns.clear()
        for image in images:
            rows = image.poll_columns(columns)
            if rows:
                return rows
        return 0

    def poll_batch(self) -> Batch | None:
        """Read whole messages of one image as a batch of up to 16,384 rows or 4 MiB, which Arrow takes without a copy:
        ``pyarrow.record_batch(batch)``. Returns ``None`` if no message is available."""
        if self._columns is None:
            self._columns = MessageColumns()
        return self._columns.batch() if self.poll_columns(self._columns) else None

    async def messages(self) -> AsyncIterator[tuple[bytes, Header]]:
        """Yield whole messages with their headers, for asyncio programs: other tasks run while it waits. Ends when the
        subscription is closed; raises the error that ended the client. A second loop continues where the first
        stopped; other polls skip messages that a loop has already read."""
        spins = 0
        while not self.is_closed or self._owner.failure is not None:
            if self._unread or self.poll(self._assembler, ASYNC_FRAGMENT_LIMIT):
                spins = 0
            while self._unread:
                yield self._unread.popleft()
            spins += 1
            await asyncio.sleep(0 if spins < ASYNC_SPINS else ASYNC_SLEEP_SECONDS)

    def _rotated_images(self) -> tuple[Image, ...]:
        """The images, starting with another one each time, so that a busy one doesn't starve the others."""
        images = self._images
        if len(images) > 1:
            first = self._next % len(images)
            self._next = first + 1
            return images[first:] + images[:first]
        if not images and self.is_closed and self._owner.failure is not None:
            raise closed_error(f"subscription {self.channel}", self._owner.failure)
        return images

    # Images

    @property
    def images(self) -> tuple[Image, ...]:
        """The current images."""
        return self._images

    def __iter__(self) -> Iterator[Image]:
        return iter(self._images)

    @property
    def is_connected(self) -> bool:
        """Whether it has an open image."""
        return any(not image.is_closed for image in self._images)

    def image_by_session_id(self, session_id: int) -> Image | None:
        """The image of the publication with this session id; ``None`` if it has none."""
        return next((image for image in self._images if image.session_id == session_id), None)

    def reject_image(self, image: Image, reason: str) -> None:
        """Implements :meth:`Image.reject`."""
        self._check_open()
        if self.channel.startswith(SPY_PREFIX):
            raise UsageError(self.channel, found="a spy subscription can't reject images")
        self._owner.reject_image(image.correlation_id, image.position, reason).result()

    # Channel

    @property
    def _is_detached(self) -> bool:
        return self.is_closed

    @property
    def resolved_endpoint(self) -> str | None:
        """The first bound address, for example ``127.0.0.1:40123``; ``None`` until it is bound."""
        return next(iter(self.local_socket_addresses), None)

    def resolved_channel(self) -> str | None:
        """The channel that publishers use: the bound port replaces port 0. ``None`` until it is bound."""
        uri = ChannelUri.parse(self.channel)
        endpoint = uri.get("endpoint") or ""
        if not endpoint.endswith(":0") or uri.get("control-mode") == "manual":
            return self.channel
        bound = self.resolved_endpoint
        if bound is None:
            return None
        resolved = f"{endpoint.rpartition(':')[0]}:{bound.rpartition(':')[2]}"
        return str(ChannelUri(uri.media, {**uri.params, "endpoint": resolved}, uri.is_spy))

    def add_destination(self, channel: str) -> None:
        """Add an endpoint to receive on (needs ``control-mode=manual``). Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        self.async_add_destination(channel).result()

    def remove_destination(self, channel: str) -> None:
        """Remove a destination. Raises the errors of :meth:`add_destination`."""
        self.async_remove_destination(channel).result()

    def async_add_destination(self, channel: str) -> Registration[int]:
        """Like :meth:`add_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(AddRcvDestination, self.registration_id, channel)

    def async_remove_destination(self, channel: str) -> Registration[int]:
        """Like :meth:`remove_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(RemoveRcvDestination, self.registration_id, channel)

    def close(self) -> None:
        """Close the subscription and its images. A second call does nothing."""
        if not self.is_closed:
            self._owner.close_subscription(self.registration_id)

    def _check_open(self) -> None:
        if self.is_closed:
            raise closed_error(f"subscription {self.channel}", self._owner.failure)

    # For the conductor

    def add_image(self, image: Image) -> None:
        """For the conductor: add an image."""
        self._images = (*self._images, image)
        self.last_image = image

    def remove_image(self, correlation_id: int) -> Image | None:
        """For the conductor: remove and return an image; ``None`` if it is unknown."""
        found = next((image for image in self._images if image.correlation_id == correlation_id), None)
        if found is not None:
            self._images = tuple(image for image in self._images if image is not found)
            found.detach()
            self._assembler.free_session_buffer(found.session_id)  # no more fragments will arrive
        return found

    def detach(self) -> tuple[Image, ...]:
        """For the conductor: close the subscription. Returns its images."""
        images, self._images = self._images, ()
        self.is_closed = True
        for image in images:
            image.detach()
        return images

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self._images)} images"
        return f"<Subscription {self.channel} stream {self.stream_id}: {state}>"
