"""What a client has: made from the driver's events, taken out of use when it goes."""

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
    """Publications, subscriptions and counters by their registration ids. ``map_log`` maps the log buffer of a name
    that the driver gives; those that are shared are mapped once."""

    def __init__(self, owner: Owner, counters: CountersReader, map_log: Callable[[str], LogMemory]) -> None:
        self.publications: dict[int, AnyPublication] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.counters: dict[int, Counter] = {}
        self._owner = owner
        self._reader = counters
        self._map_log = map_log
        self._logs: weakref.WeakValueDictionary[str, LogMemory] = weakref.WeakValueDictionary()

    def add_publication(self, channel: str, event: OnPublicationReady | OnExclusivePublicationReady) -> AnyPublication:
        """The publication that the driver grants. Raises :class:`EverlogError` when its log can't be mapped."""
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
        """The counter that the driver grants. Raises :class:`CorruptData` for an id that it does not have."""
        self._offset(event.counter_id)
        is_static = isinstance(event, OnStaticCounter)
        counter = Counter(self._owner, self._reader.values, event.counter_id, event.correlation_id, is_static=is_static)
        self.counters[event.correlation_id] = counter
        return counter

    def add_image(self, subscription: Subscription, event: OnAvailableImage) -> Image:
        """The image that the driver announces. Raises :class:`EverlogError` when its log can't be mapped."""
        image = Image(self._log(event.log_file_name), self._reader.values, self._offset(event.subscriber_position_id))
        image.subscription = subscription
        image.correlation_id = event.correlation_id
        image.source_identity = event.source_identity
        image.subscriber_position_id = event.subscriber_position_id
        subscription.add_image(image)
        return image

    def channels_of(self, channel_status_id: int) -> Iterator[str]:
        """Those of the publications and subscriptions whose channel has this status counter."""
        for one in (*self.publications.values(), *self.subscriptions.values()):
            if one.channel_status_id == channel_status_id:
                yield one.channel

    def detach(self) -> list[tuple[Subscription, Image]]:
        """Everything out of use; gives the images that were there."""
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
        """Of a counter's value. Raises :class:`CorruptData` for an id that the driver does not have."""
        if not 0 <= counter_id < self._reader.capacity:
            found, expected = f"counter {counter_id}", f"0 to {self._reader.capacity - 1}"
            raise CorruptData("event of the driver", found=found, expected=expected)
        return counter_id * VALUE_LENGTH
