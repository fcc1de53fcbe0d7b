"""The requests of a client for asyncio programs, the same as those in ``blocking.requests``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TypeVar

from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.pages import DescriptorPages, SubscriptionPages
from everlog.aeron.archive.client.values import RecordingDescriptor, SubscriptionDescriptor
from everlog.aeron.archive.protocol.requests import SourceLocation

T = TypeVar("T")


class AsyncRequests(ABC):
    """Requests to await; any number may be in flight.

    All raise :class:`ArchiveError`, with the archive's text and ``code``, if it refuses; :class:`ArchiveTimeout` if it
    doesn't answer within ``message_timeout_ms``; :class:`SessionLost` if the session has ended; both say in
    ``was_sent`` whether the request may have been done. Positions are bytes of the stream."""

    @abstractmethod
    async def _call(self, call: Call[T]) -> T:
        """Send a request and wait for its answer."""

    # Recording

    async def start_recording(
        self,
        channel: str,
        stream_id: int,
        source_location: SourceLocation = SourceLocation.LOCAL,
        *,
        auto_stop: bool = False,
    ) -> int:
        """Record a stream: each publication of it becomes a recording. ``LOCAL``: it is published on the archive's own
        media driver. With ``auto_stop`` it stops after the first one. Returns the id of the archive's subscription,
        for :meth:`stop_recording_by_subscription`."""
        return await self._call(calls.start_recording(channel, stream_id, source_location, auto_stop=auto_stop))

    async def extend_recording(
        self,
        recording_id: int,
        channel: str,
        stream_id: int,
        source_location: SourceLocation = SourceLocation.LOCAL,
        *,
        auto_stop: bool = False,
    ) -> int:
        """Continue a stopped recording with a publication that begins at its stop position. Returns the id of the
        archive's subscription."""
        call = calls.extend_recording(recording_id, channel, stream_id, source_location, auto_stop=auto_stop)
        return await self._call(call)

    async def stop_recording(self, channel: str, stream_id: int) -> None:
        """Stop the recordings that were started with this channel and stream. The signal STOP says when it is done."""
        await self._call(calls.stop_recording(channel, stream_id))

    async def try_stop_recording(self, channel: str, stream_id: int) -> bool:
        """Like :meth:`stop_recording`; returns false if none was started."""
        return await self._call(calls.try_stop_recording(channel, stream_id))

    async def stop_recording_by_subscription(self, subscription_id: int) -> None:
        """Stop the recordings of a subscription, whose id :meth:`start_recording` returned. Source:
        stopRecording(subscriptionId)."""
        await self._call(calls.stop_recording_by_subscription(subscription_id))

    async def try_stop_recording_by_subscription(self, subscription_id: int) -> bool:
        """Like :meth:`stop_recording_by_subscription`; returns false if the id is unknown."""
        return await self._call(calls.try_stop_recording_by_subscription(subscription_id))

    async def try_stop_recording_by_identity(self, recording_id: int) -> bool:
        """Stop one recording. Returns false if it is not active."""
        return await self._call(calls.try_stop_recording_by_identity(recording_id))

    async def stop_recording_by_identity(self, recording_id: int) -> None:
        """Like :meth:`try_stop_recording_by_identity`, but raises :class:`ArchiveError` if it is not active."""
        calls.check_stopped(recording_id, await self._call(calls.try_stop_recording_by_identity(recording_id)))

    # Replays

    async def stop_replay(self, replay_session_id: int) -> None:
        """Stop a replay, whose id :meth:`start_replay` returned."""
        await self._call(calls.stop_replay(replay_session_id))

    async def stop_all_replays(self, recording_id: int | None = None) -> None:
        """Stop the replays of a recording; by default those of all."""
        await self._call(calls.stop_all_replays(recording_id))

    async def replay_token(self, recording_id: int) -> int:
        """Ask for a token with which another publication may ask for a replay; it expires after the archive's connect
        timeout."""
        return await self._call(calls.replay_token(recording_id))

    # Lists

    def list_recordings(
        self, from_recording_id: int = 0, count: int | None = None, *, page_size: int = calls.PAGE_SIZE
    ) -> AsyncIterator[RecordingDescriptor]:
        """Yield the recordings from an id on, by id; by default all. Asks for ``page_size`` at a time, so that a long
        catalog needs little memory."""
        return self._pages(DescriptorPages(from_recording_id, count, page_size))

    def list_recordings_for_uri(
        self,
        channel_fragment: str,
        stream_id: int,
        from_recording_id: int = 0,
        count: int | None = None,
        *,
        page_size: int = calls.PAGE_SIZE,
    ) -> AsyncIterator[RecordingDescriptor]:
        """Like :meth:`list_recordings`, for the recordings of a stream whose channel contains a text."""
        place = (calls.text("channel_fragment", channel_fragment), stream_id)
        return self._pages(DescriptorPages(from_recording_id, count, page_size, place))

    async def _pages(self, pages: DescriptorPages) -> AsyncIterator[RecordingDescriptor]:
        while (call := pages.next_call()) is not None:
            for each in pages.take(await self._call(call)):
                yield each

    async def list_recording(self, recording_id: int) -> RecordingDescriptor | None:
        """Return one recording; ``None`` if it is unknown."""
        return await self._call(calls.list_recording(recording_id))

    async def list_recording_subscriptions(
        self, channel_fragment: str = "", stream_id: int | None = None, *, page_size: int = calls.PAGE_SIZE
    ) -> AsyncIterator[SubscriptionDescriptor]:
        """Yield the subscriptions with which the archive records now: those whose channel contains a text, of one
        stream or of all. One that ends meanwhile may hide another."""
        pages = SubscriptionPages(calls.text("channel_fragment", channel_fragment), stream_id, page_size)
        while (call := pages.next_call()) is not None:
            for each in pages.take(await self._call(call)):
                yield each

    async def find_last_matching_recording(
        self, channel_fragment: str, stream_id: int, session_id: int, *, min_recording_id: int = 0
    ) -> int | None:
        """Return the highest id of the recordings of a stream and session whose channel contains a text; ``None`` if
        there is none."""
        return await self._call(
            calls.find_last_matching_recording(min_recording_id, channel_fragment, stream_id, session_id)
        )

    # Positions

    async def start_position(self, recording_id: int) -> int:
        """Return the position at which a recording starts (getStartPosition)."""
        return await self._call(calls.start_position(recording_id))

    async def stop_position(self, recording_id: int) -> int | None:
        """Return the position at which a recording stops; ``None`` while it is active (getStopPosition)."""
        return await self._call(calls.stop_position(recording_id))

    async def recording_position(self, recording_id: int) -> int | None:
        """Return how far an active recording is; ``None`` if it is not active (getRecordingPosition)."""
        return await self._call(calls.recording_position(recording_id))

    async def max_recorded_position(self, recording_id: int) -> int:
        """Return how far an active recording is, or where a stopped one ends (getMaxRecordedPosition)."""
        return await self._call(calls.max_recorded_position(recording_id))

    # Maintenance: each returns the number of segment files that the archive deletes then; the signal DELETE says when

    async def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything after ``position``, the end of a frame of a stopped recording. Returns the number of
        files that the archive deletes; the signal DELETE says when they are gone."""
        return await self._call(calls.truncate_recording(recording_id, position))

    async def purge_recording(self, recording_id: int) -> int:
        """Delete a stopped recording that is not replayed. Returns the number of files, as above."""
        return await self._call(calls.purge_recording(recording_id))

    async def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Move a recording's start to the beginning of a later segment; the files before it stay."""
        await self._call(calls.detach_segments(recording_id, new_start_position))

    async def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the segment files before a recording's start. Returns their number."""
        return await self._call(calls.delete_detached_segments(recording_id))

    async def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Move a recording's start to the beginning of a later segment and delete the files before it. Returns their
        number."""
        return await self._call(calls.purge_segments(recording_id, new_start_position))

    async def attach_segments(self, recording_id: int) -> int:
        """Attach the segment files that directly precede a recording's start. Returns their number."""
        return await self._call(calls.attach_segments(recording_id))

    async def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move all segments of a recording to another one that begins where it stops, or stops where it begins.
        Returns the number of moved files."""
        return await self._call(calls.migrate_segments(source_id, target_id))

    async def update_channel(self, recording_id: int, channel: str) -> None:
        """Change a recording's channel in the catalog."""
        await self._call(calls.update_channel(recording_id, channel))
