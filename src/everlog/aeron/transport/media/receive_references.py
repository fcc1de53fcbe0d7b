"""Who uses a receiving endpoint: subscriptions by stream, by stream and session, those that wait for a response, and
images. Source: Aeron, ReceiveChannelEndpoint."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

Key = TypeVar("Key")


class ReceiveReferences:
    """Counts. ``ValueError`` for one less than there are."""

    def __init__(self) -> None:
        self._streams: Counter[int] = Counter()
        self._sessions: Counter[tuple[int, int]] = Counter()
        self._responses: Counter[int] = Counter()
        self._images = 0

    def inc_ref_to_stream(self, stream_id: int) -> int:
        """One more subscription; how many there are."""
        self._streams[stream_id] += 1
        return self._streams[stream_id]

    def dec_ref_to_stream(self, stream_id: int) -> int:
        """One less; how many are left."""
        return _less(self._streams, stream_id)

    def inc_ref_to_stream_and_session(self, stream_id: int, session_id: int) -> int:
        """One more subscription; how many there are."""
        self._sessions[stream_id, session_id] += 1
        return self._sessions[stream_id, session_id]

    def dec_ref_to_stream_and_session(self, stream_id: int, session_id: int) -> int:
        """One less; how many are left."""
        return _less(self._sessions, (stream_id, session_id))

    def inc_response_ref_to_stream(self, stream_id: int) -> int:
        """One more subscription that waits for a response; how many there are."""
        self._responses[stream_id] += 1
        return self._responses[stream_id]

    def dec_response_ref_to_stream(self, stream_id: int) -> int:
        """One less; how many are left."""
        return _less(self._responses, stream_id)

    def inc_ref_images(self) -> None:
        """One more image."""
        self._images += 1

    def dec_ref_images(self) -> None:
        """One less."""
        self._images -= 1

    @property
    def distinct_subscription_count(self) -> int:
        """Streams, and sessions of streams, that are subscribed to."""
        return len(self._streams) + len(self._sessions)

    @property
    def is_empty(self) -> bool:
        """Whether nobody uses it."""
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
