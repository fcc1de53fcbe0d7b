"""Subscriptions of a client and their images. Source: Aeron's Subscription and Image."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Self

from everlog.aeron.channel_uri import SPY_PREFIX, ChannelUri
from everlog.aeron.transport.client.channel_state import NO_CHANNEL_STATUS, ChannelState
from everlog.aeron.transport.client.errors import ended
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
    """What a client hears on a channel and stream: an :class:`Image` for each publication. One thread polls it; others
    may look at it and close it. Close it, or use it in a ``with`` statement.

    Polling raises what ended the client, such as :class:`DriverTimeout`, once it has ended; a subscription that the
    program closed gives 0."""

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
        """Id of the counter of the channel's state; -1 for IPC."""
        self.is_closed = False
        self._owner = owner
        self._images: tuple[Image, ...] = ()
        self._next = 0
        self._columns: MessageColumns | None = None
        # What was read for `messages` and not given out yet: a loop may be left at any message.
        self._unread: deque[tuple[bytes, Header]] = deque()
        append = self._unread.append
        self._assembler = FragmentAssembler(lambda payload, header: append((payload, header)))

    # Polling

    def poll(self, handler: FragmentHandler, fragment_limit: int = FRAGMENT_LIMIT) -> int:
        """Call ``handler(payload, header)`` for up to ``fragment_limit`` fragments, of all images in turn; gives how
        many. A message that is longer than the publication's ``max_payload_length`` comes in several: a
        :class:`FragmentAssembler` around the handler puts them together. An error of the handler's goes through, and
        the fragment counts as read."""
        images = self._turn()
        read = 0
        for image in images:
            read += image.poll(handler, fragment_limit - read)
            if read >= fragment_limit:
                break
        return read

    def controlled_poll(self, handler: ControlledFragmentHandler, fragment_limit: int = FRAGMENT_LIMIT) -> int:
        """As :meth:`poll`, and the handler says what comes next with an :class:`Action`: ``ABORT`` gives the fragment
        again later, ``BREAK`` ends the poll behind it, ``COMMIT`` lets the publisher know at once, ``CONTINUE`` or
        ``None`` goes on."""
        images = self._turn()
        read = 0
        for image in images:
            read += image.controlled_poll(handler, fragment_limit - read)
            if read >= fragment_limit:
                break
        return read

    def block_poll(self, handler: Callable[[memoryview, int, int], object], block_length_limit: int) -> int:
        """Call ``handler(block, session_id, term_id)`` with the frames as they lie in each image's term, up to
        ``block_length_limit`` bytes each; gives how many bytes. The block is valid while the handler runs."""
        return sum(image.block_poll(handler, block_length_limit) for image in self._turn())

    def raw_poll(self, handler: Callable[[int, memoryview, int, int], object], block_length_limit: int) -> int:
        """As :meth:`block_poll`; the handler gets the block's offset in the log buffer's file first."""
        return sum(image.raw_poll(handler, block_length_limit) for image in self._turn())

    def poll_columns(self, columns: MessageColumns) -> int:
        """Whole messages of one image into column buffers, of another image each time; gives how many. What was in them
        before is gone. The fastest way to read."""
        images = self._turn()
        if not images:
            columns.clear()
        for image in images:
            rows = image.poll_columns(columns)
            if rows:
                return rows
        return 0

    def poll_batch(self) -> Batch | None:
        """Whole messages as a batch that Arrow takes without a copy (``pyarrow.record_batch(batch)``), of up to 16,384
        rows or 4 MiB, all of one image; ``None`` when there are none now."""
        if self._columns is None:
            self._columns = MessageColumns()
        return self._columns.batch() if self.poll_columns(self._columns) else None

    async def messages(self) -> AsyncIterator[tuple[bytes, Header]]:
        """Whole messages and their headers, in an asyncio program: others go on while there are none. It ends when the
        subscription is closed, and raises what ended the client. A second loop goes on where the first was left; other
        polls don't give what was read for it."""
        spins = 0
        while not self.is_closed or self._owner.failure is not None:
            if self._unread or self.poll(self._assembler, ASYNC_FRAGMENT_LIMIT):
                spins = 0
            while self._unread:
                yield self._unread.popleft()
            spins += 1
            await asyncio.sleep(0 if spins < ASYNC_SPINS else ASYNC_SLEEP_SECONDS)

    def _turn(self) -> tuple[Image, ...]:
        """The images, another one first each time: so no busy one keeps the others waiting."""
        images = self._images
        if len(images) > 1:
            first = self._next % len(images)
            self._next = first + 1
            return images[first:] + images[:first]
        if not images and self.is_closed and self._owner.failure is not None:
            raise ended(f"subscription {self.channel}", self._owner.failure)
        return images

    # Images

    @property
    def images(self) -> tuple[Image, ...]:
        """Those that are there now."""
        return self._images

    def __iter__(self) -> Iterator[Image]:
        return iter(self._images)

    @property
    def is_connected(self) -> bool:
        """Whether there is an image."""
        return any(not image.is_closed for image in self._images)

    def image_by_session_id(self, session_id: int) -> Image | None:
        """A publication's image; ``None`` when it is not there."""
        return next((image for image in self._images if image.session_id == session_id), None)

    def reject_image(self, image: Image, reason: str) -> None:
        """As :meth:`Image.reject`."""
        self._check_open()
        if self.channel.startswith(SPY_PREFIX):
            raise UsageError(self.channel, found="a spy that rejects an image", expected="another subscription")
        self._owner.reject_image(image.correlation_id, image.position, reason).result()

    # Channel

    @property
    def _is_over(self) -> bool:
        return self.is_closed

    @property
    def resolved_endpoint(self) -> str | None:
        """The first bound address, such as ``127.0.0.1:40123``; ``None`` before it is bound."""
        return next(iter(self.local_socket_addresses), None)

    def resolved_channel(self) -> str | None:
        """The channel for publishers, with the port in place of an endpoint's 0; ``None`` before it is bound."""
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
        """Listen at one more endpoint, in ``control-mode=manual``. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        self.async_add_destination(channel).result()

    def remove_destination(self, channel: str) -> None:
        """Listen there no more. Raises as :meth:`add_destination`."""
        self.async_remove_destination(channel).result()

    def async_add_destination(self, channel: str) -> Registration[int]:
        """As :meth:`add_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(AddRcvDestination, self.registration_id, channel)

    def async_remove_destination(self, channel: str) -> Registration[int]:
        """As :meth:`remove_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(RemoveRcvDestination, self.registration_id, channel)

    def close(self) -> None:
        """Hear no more; a second call does nothing."""
        if not self.is_closed:
            self._owner.close_subscription(self.registration_id)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ended(f"subscription {self.channel}", self._owner.failure)

    # For the conductor

    def add_image(self, image: Image) -> None:
        """For the conductor: a publication is there."""
        self._images = (*self._images, image)

    def remove_image(self, correlation_id: int) -> Image | None:
        """For the conductor: a publication has gone."""
        found = next((image for image in self._images if image.correlation_id == correlation_id), None)
        if found is not None:
            self._images = tuple(image for image in self._images if image is not found)
            found.detach()
            self._assembler.free_session_buffer(found.session_id)  # the rest of its last message does not come
        return found

    def detach(self) -> tuple[Image, ...]:
        """For the conductor: it is out of use. Gives the images that it had."""
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
