"""A client's publications, subscriptions and counters: created from the driver's events, detached when they end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.owner import Owner
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication, PublicationGrant
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.format.counters import VALUE_LENGTH
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.protocol.commands import (
    OnAvailableImage,
    OnCounterReady,
    OnExclusivePublicationReady,
    OnPublicationReady,
    OnStaticCounter,
)
from everlog.errors import CorruptData

AnyPublication = Publication | ExclusivePublication


class Resources:
    """Publications, subscriptions and counters by registration id. ``map_log`` maps a log buffer, given the driver's
    file name; a shared one is mapped once."""

    def __init__(self, owner: Owner, counters: CountersReader, map_log: Callable[[str], LogMemory]) -> None:
        self.publications: dict[int, AnyPublication] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.counters: dict[int, Counter] = {}
        self._owner = owner
        self._reader = counters
        self._map_log = map_log
        self._logs: weakref.WeakValueDictionary[str, LogMemory] = weakref.WeakValueDictionary()

    def add_publication(self, channel: str, event: OnPublicationReady | OnExclusivePublicationReady) -> AnyPublication:
        """Create the publication that the driver granted. Raises :class:`EverlogError` if its log can't be mapped."""
        kind = ExclusivePublication if isinstance(event, OnExclusivePublicationReady) else Publication
        terms = PublicationGrant(
            owner=self._owner,
            channel=channel,
            log=self._log(event.log_file_name),
            counters_values=self._reader.values,
            limit_offset=self._offset(event.position_limit_counter_id),
            registration_id=event.correlation_id,
            original_registration_id=event.registration_id,
            channel_status_id=event.channel_status_id,
        )
        publication = self.publications[event.correlation_id] = kind(terms)
        return publication

    def add_counter(self, event: OnCounterReady | OnStaticCounter) -> Counter:
        """Create the counter that the driver granted. Raises :class:`CorruptData` if its id is out of range."""
        self._offset(event.counter_id)
        is_static = isinstance(event, OnStaticCounter)
        counter = Counter(self._owner, self._reader.values, event.counter_id, event.correlation_id, is_static=is_static)
        self.counters[event.correlation_id] = counter
        return counter

    def add_image(self, subscription: Subscription, event: OnAvailableImage) -> Image:
        """Create the image that the driver announced. Raises :class:`EverlogError` if its log can't be mapped."""
        image = Image(self._log(event.log_file_name), self._reader.values, self._offset(event.subscriber_position_id))
        image.subscription = subscription
        image.correlation_id = event.correlation_id
        image.source_identity = event.source_identity
        image.subscriber_position_id = event.subscriber_position_id
        subscription.add_image(image)
        return image

    def channels_of(self, channel_status_id: int) -> Iterator[str]:
        """Channels of the publications and subscriptions with this channel status counter."""
        for one in (*self.publications.values(), *self.subscriptions.values()):
            if one.channel_status_id == channel_status_id:
                yield one.channel

    def detach(self) -> list[tuple[Subscription, Image]]:
        """Detach everything. Returns the images with their subscriptions."""
        for publication in self.publications.values():
            publication.detach()
        for counter in self.counters.values():
            counter.detach()
        lost = [
            (subscription, image) for subscription in self.subscriptions.values() for image in subscription.detach()
        ]
        self.publications.clear()
        self.counters.clear()
        self.subscriptions.clear()
        return lost

    def _log(self, name: str) -> LogMemory:
        log = self._logs.get(name)
        if log is None:
            self._logs[name] = log = self._map_log(name)
        return log

    def _offset(self, counter_id: int) -> int:
        """Offset of a counter's value. Raises :class:`CorruptData` if the id is out of range."""
        if not 0 <= counter_id < self._reader.capacity:
            found, expected = f"counter {counter_id}", f"0 to {self._reader.capacity - 1}"
            raise CorruptData("driver event", found=found, expected=expected)
        return counter_id * VALUE_LENGTH
