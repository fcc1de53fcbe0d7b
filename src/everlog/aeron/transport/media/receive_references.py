"""Counts the users of a receiving endpoint: subscriptions by stream, by stream and session, subscriptions that wait for
a response, and images. Source: Aeron, ReceiveChannelEndpoint."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

Key = TypeVar("Key")


class ReceiveReferences:
    """Counts of subscriptions by key, and of images. Removing a subscription from a count of 0 raises ``ValueError``;
    the count of images is not checked."""

    def __init__(self) -> None:
        self._streams: Counter[int] = Counter()
        self._sessions: Counter[tuple[int, int]] = Counter()
        self._responses: Counter[int] = Counter()
        self._images = 0

    def inc_ref_to_stream(self, stream_id: int) -> int:
        """Add a subscription; returns the count."""
        self._streams[stream_id] += 1
        return self._streams[stream_id]

    def dec_ref_to_stream(self, stream_id: int) -> int:
        """Remove a subscription; returns the count."""
        return _less(self._streams, stream_id)

    def inc_ref_to_stream_and_session(self, stream_id: int, session_id: int) -> int:
        """Add a subscription to a session; returns the count."""
        self._sessions[stream_id, session_id] += 1
        return self._sessions[stream_id, session_id]

    def dec_ref_to_stream_and_session(self, stream_id: int, session_id: int) -> int:
        """Remove a subscription to a session; returns the count."""
        return _less(self._sessions, (stream_id, session_id))

    def inc_response_ref_to_stream(self, stream_id: int) -> int:
        """Add a subscription that waits for a response; returns the count."""
        self._responses[stream_id] += 1
        return self._responses[stream_id]

    def dec_response_ref_to_stream(self, stream_id: int) -> int:
        """Remove a subscription that waits for a response; returns the count."""
        return _less(self._responses, stream_id)

    def inc_ref_images(self) -> None:
        """Add an image."""
        self._images += 1

    def dec_ref_images(self) -> None:
        """Remove an image."""
        self._images -= 1

    @property
    def distinct_subscription_count(self) -> int:
        """Number of streams and sessions of streams with a subscription."""
        return len(self._streams) + len(self._sessions)

    @property
    def is_empty(self) -> bool:
        """Whether nothing uses the endpoint."""
        return not (self._streams or self._sessions or self._responses or self._images > 0)


def _less(counts: Counter[Key], key: Key) -> int:
    count = counts[key] - 1
    if count < 0:
        raise ValueError(f"nobody subscribes to {key}")
    if count == 0:
        del counts[key]
    else:
        counts[key] = count
    return count
