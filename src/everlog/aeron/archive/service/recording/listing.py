"""Lists the subscriptions with which a service records. Source: ListRecordingSubscriptionsSession."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from everlog.aeron.archive.protocol.responses import RecordingSubscription
from everlog.aeron.archive.service.requester import Requester


class SubscriptionListing:
    """Sends the subscriptions that were there when it was asked for, one message each, as the client's stream takes
    them; then SUBSCRIPTION_UNKNOWN if they are fewer than ``count``."""

    def __init__(
        self,
        requester: Requester,
        correlation_id: int,
        found: Sequence[tuple[int, int, str]],
        count: int,
    ) -> None:
        """``found``: id, stream id and channel of each subscription."""
        self._requester = requester
        self._correlation_id = correlation_id
        self._left = deque(found[:count])
        self._is_short = len(found) < count
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether all was sent, or the client is gone."""
        return self._is_done

    def do_work(self, now_ns: int) -> int:
        """Send what the client's stream takes now. Returns the number of messages."""
        sent = 0
        while self._left:
            subscription_id, stream_id, channel = self._left[0]
            message = RecordingSubscription(
                self._requester.session_id, self._correlation_id, subscription_id, stream_id, channel
            )
            if not self._requester.try_send(message):
                self._is_done = self._requester.is_done
                return sent
            self._left.popleft()
            sent += 1
        if not self._is_done:
            self._is_done = True
            if self._is_short:
                self._requester.send_unknown_subscription(self._correlation_id)
                sent += 1
        return sent

    def abort(self, reason: str) -> None:
        """End without another message."""
        self._left.clear()
        self._is_done = True

    def close(self) -> None:
        """It holds nothing."""
