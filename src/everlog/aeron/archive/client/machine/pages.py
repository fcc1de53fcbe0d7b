"""Lists in pages, so that a huge catalog needs no memory."""

from __future__ import annotations

from collections.abc import Iterable

from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.values import RecordingDescriptor, SubscriptionDescriptor
from everlog.errors import CorruptData, UsageError


def _check_size(page_size: int) -> None:
    if not 1 <= page_size <= calls.MAX_LIST:
        raise UsageError("page_size", found=str(page_size), expected=f"1 to {calls.MAX_LIST}")


class DescriptorPages:
    """The calls that list recordings from an id on, ``count`` at most. ``place`` is a channel fragment and stream
    id."""

    def __init__(
        self, from_recording_id: int, count: int | None, page_size: int, place: tuple[str, int] | None = None
    ) -> None:
        _check_size(page_size)
        if count is not None and count < 0:
            raise UsageError("count", found=str(count), expected="0 or more")
        self._next_id = from_recording_id
        self._left = count
        self._size = page_size
        self._place = place
        self._asked = 0
        self._is_done = count == 0

    def next_call(self) -> Call[list[RecordingDescriptor]] | None:
        """The call for the next page; ``None`` after the last one."""
        if self._is_done:
            return None
        self._asked = self._size if self._left is None else min(self._size, self._left)
        if self._place is None:
            return calls.list_recordings(self._next_id, self._asked)
        return calls.list_recordings_for_uri(self._next_id, self._asked, *self._place)

    def take(self, page: list[RecordingDescriptor]) -> Iterable[RecordingDescriptor]:
        """Take the page that was asked for. Raises :class:`CorruptData` if its ids don't ascend, which might never
        end."""
        for descriptor in page:
            if descriptor.recording_id < self._next_id:
                found = f"recording {descriptor.recording_id}"
                raise CorruptData("list of recordings", found=found, expected=f"{self._next_id} or later")
            self._next_id = descriptor.recording_id + 1
        if self._left is not None:
            self._left -= len(page)
        self._is_done = len(page) < self._asked or self._left == 0
        return page


class SubscriptionPages:
    """The calls that list subscriptions."""

    def __init__(self, channel_fragment: str, stream_id: int | None, page_size: int) -> None:
        _check_size(page_size)
        self._fragment, self._stream_id = channel_fragment, stream_id
        self._size = page_size
        self._index = 0
        self._is_done = False

    def next_call(self) -> Call[list[SubscriptionDescriptor]] | None:
        """The call for the next page; ``None`` after the last one."""
        if self._is_done:
            return None
        return calls.list_recording_subscriptions(self._index, self._size, self._fragment, self._stream_id)

    def take(self, page: list[SubscriptionDescriptor]) -> Iterable[SubscriptionDescriptor]:
        """Take the page that was asked for."""
        self._index += len(page)
        self._is_done = len(page) < self._size
        return page
