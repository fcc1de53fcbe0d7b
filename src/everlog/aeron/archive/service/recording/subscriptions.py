"""The subscriptions with which a service records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from everlog.aeron.archive.service.recording.session import RecordingSession
from everlog.aeron.archive.service.recording.streams import RecordingRequest
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.subscription import Subscription


@dataclass(eq=False, slots=True)
class RecordedSubscription:
    """A subscription whose images are recorded. It is closed when it was stopped and its last session has ended."""

    request: RecordingRequest
    is_stopped: bool = False
    sessions: list[RecordingSession] = field(default_factory=list)
    _subscription: Subscription | None = None

    @property
    def subscription(self) -> Subscription:
        """The driver's subscription."""
        assert self._subscription is not None, "it was added"
        return self._subscription

    @property
    def registration_id(self) -> int:
        """The driver's id of the subscription, by which clients stop it."""
        return self.subscription.registration_id


class Subscriptions:
    """The subscriptions that were not stopped, in the order in which they were added."""

    def __init__(self, aeron: Aeron, on_image: Callable[[RecordedSubscription, Image], None]) -> None:
        self._aeron = aeron
        self._on_image = on_image
        self._by_key: dict[str, RecordedSubscription] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[RecordedSubscription]:
        return iter(tuple(self._by_key.values()))

    def by_key(self, key: str) -> RecordedSubscription | None:
        """The subscription of a stream."""
        return self._by_key.get(key)

    def by_id(self, registration_id: int) -> RecordedSubscription | None:
        """The subscription with the driver's id."""
        return next((each for each in self._by_key.values() if each.registration_id == registration_id), None)

    def add(self, channel: str, request: RecordingRequest) -> RecordedSubscription:
        """Subscribe, and wait for the driver's answer. Images may come before this returns. Raises
        :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        added = RecordedSubscription(request)
        try:
            added._subscription = self._aeron.add_subscription(
                channel, request.stream_id, lambda image: self._on_image(added, image)
            )
        except BaseException:
            added.is_stopped = True
            raise
        self._by_key[request.key] = added
        return added

    def stop(self, stopped: RecordedSubscription, reason: str) -> None:
        """Forget a subscription and end its sessions: each ends at its next cycle. A second call does nothing."""
        for session in stopped.sessions:
            session.abort(reason)
        self.forget(stopped)

    def forget(self, forgotten: RecordedSubscription) -> None:
        """Record no further image of a subscription; those that are recorded go on."""
        if not forgotten.is_stopped:
            forgotten.is_stopped = True
            del self._by_key[forgotten.request.key]
        self._close_unused(forgotten)

    def ended(self, owner: RecordedSubscription, session: RecordingSession) -> None:
        """A session of the subscription has ended."""
        owner.sessions.remove(session)
        if owner.request.auto_stop:
            self.stop(owner, "close recording session")
        self._close_unused(owner)

    def _close_unused(self, subscription: RecordedSubscription) -> None:
        if subscription.is_stopped and not subscription.sessions:
            subscription.subscription.close()
