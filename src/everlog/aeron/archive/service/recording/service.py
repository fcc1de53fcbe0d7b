"""The recording part of a service: starts and stops recordings for clients, and runs them.

A client subscribes to a stream; each image of the subscription is a recording of its own. Image handlers only queue the
image: the client of the driver accepts no calls there. Source: ArchiveConductor (startRecording, extendRecording,
stopRecording..., startRecordingSession, extendRecordingSession, closeRecordingSession), RecordingPos.
"""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import TransferTimes
from everlog.aeron.archive.service.recording.active import ActiveRecordings
from everlog.aeron.archive.service.recording.admission import Admission, usable_space_of
from everlog.aeron.archive.service.recording.events import RecordingEventsPublisher
from everlog.aeron.archive.service.recording.listing import SubscriptionListing
from everlog.aeron.archive.service.recording.session import SessionSurroundings
from everlog.aeron.archive.service.recording.streams import RecordingRequest, stream_key, subscription_channel
from everlog.aeron.archive.service.recording.subscriptions import Subscriptions
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.archive.service.transfers import Transfers
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.transport.client.subscription import Subscription
from everlog.kernel.watch import Condition


class RecordingService:
    """Records for clients. Methods that act for one take it as ``requester``, with its request's correlation id: it
    gets the signals and errors of what it started. They return the relevant id of the answer OK and raise
    :class:`ArchiveError` to refuse.

    ``usable_space`` returns the bytes that may still be written to the folder, by default those of its file system.
    ``write_times`` counts what is written. ``transfers`` is the agent of a thread that records; without one,
    :meth:`do_work` does.
    Raises :class:`RegistrationRefused`, :class:`DriverTimeout` if the events channel can't be added."""

    def __init__(
        self,
        context: ServiceContext,
        *,
        usable_space: Callable[[], int] | None = None,
        write_times: TransferTimes | None = None,
        transfers: Transfers | None = None,
    ) -> None:
        usable_space = usable_space or (lambda: usable_space_of(context.archive.path))
        settings = context.settings
        self._aeron = context.aeron
        self._events: RecordingEventsPublisher | None = None
        if settings.recording_events_channel is not None:
            publication = context.aeron.add_exclusive_publication(
                settings.recording_events_channel, settings.recording_events_stream_id
            )
            self._events = RecordingEventsPublisher(publication, context.on_error)
        surroundings = SessionSurroundings(
            events=self._events,
            block_length_limit=settings.file_io_max_length,
            usable_space=usable_space,
            on_error=context.on_error,
            write_times=write_times,
            is_dedicated=transfers is not None,
        )
        self._active = ActiveRecordings(context, surroundings, transfers)
        self._subscriptions = Subscriptions(context.aeron, self._active.on_image)
        self._admission = Admission(context, usable_space, self._active.__contains__)

    def refuse_while_deleting(self, is_deleting: Callable[[int, int], bool]) -> None:
        """Have recordings refused to be extended while ``is_deleting(recording_id, stop_position)`` tells that files at
        or after their stop position are being deleted."""
        self._admission.is_deleting = is_deleting

    # Start and extend

    def start(
        self,
        requester: Requester,
        correlation_id: int,
        stream_id: int,
        channel: str,
        location: SourceLocation,
        auto_stop: bool,
    ) -> int:
        """Record each image of a stream from now on; returns the subscription's id. Waits for the driver. Raises
        :class:`ArchiveError`, :class:`InvalidChannel`, :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        self._admission.check_count(len(self._subscriptions), extends=False)
        self._admission.check_space()
        return self._subscribe(requester, correlation_id, stream_id, channel, location, auto_stop)

    def extend(
        self,
        requester: Requester,
        correlation_id: int,
        recording_id: int,
        stream_id: int,
        channel: str,
        location: SourceLocation,
        auto_stop: bool,
    ) -> int:
        """Continue a stopped recording with the next image of its stream, which must join where the recording stops.
        Returns and raises as :meth:`start`."""
        admission = self._admission
        admission.check_count(len(self._subscriptions), extends=True)
        recording = admission.known(recording_id)
        admission.check_stream(recording, stream_id)
        admission.check_extensible(recording)
        admission.check_space()
        return self._subscribe(requester, correlation_id, stream_id, channel, location, auto_stop, recording_id)

    def _subscribe(
        self,
        requester: Requester,
        correlation_id: int,
        stream_id: int,
        channel: str,
        location: SourceLocation,
        auto_stop: bool,
        recording_id: int | None = None,
    ) -> int:
        key = stream_key(stream_id, channel)
        if self._subscriptions.by_key(key) is not None:
            message = f"recording exists for streamId={stream_id} channel={channel}"
            error = ArchiveError(channel, found="a recording of it", expected="another stream", message=message)
            raise error.coded(ErrorCode.ACTIVE_SUBSCRIPTION)
        request = RecordingRequest(
            requester=requester,
            correlation_id=correlation_id,
            key=key,
            channel=channel,
            stream_id=stream_id,
            auto_stop=auto_stop,
            recording_id=recording_id,
        )
        return self._subscriptions.add(subscription_channel(channel, location), request).registration_id

    # Stop

    def stop_by_channel(self, requester: Requester, correlation_id: int, stream_id: int, channel: str) -> int:
        """End the recordings of a stream at their next cycle. Raises :class:`ArchiveError`, :class:`InvalidChannel`."""
        found = self._subscriptions.by_key(stream_key(stream_id, channel))
        if found is None:
            message = f"no recording found for streamId={stream_id} channel={channel}"
            raise _unknown_subscription(channel, message)
        self._subscriptions.stop(found, "stop recording")
        self._active.touch()
        return 0

    def stop_subscription(self, requester: Requester, correlation_id: int, subscription_id: int) -> int:
        """End the recordings of a subscription at their next cycle. Raises :class:`ArchiveError`."""
        found = self._subscriptions.by_id(subscription_id)
        if found is None:
            message = f"no recording subscription found for subscriptionId={subscription_id}"
            raise _unknown_subscription(f"subscription {subscription_id}", message)
        self._subscriptions.stop(found, "stop recording")
        self._active.touch()
        return 0

    def stop_by_identity(self, requester: Requester, correlation_id: int, recording_id: int) -> int:
        """End a recording at its next cycle. Its subscription's other recordings go on; no new image is recorded.
        Returns 1, or 0 if it is not active or its subscription was stopped before. Raises :class:`ArchiveError`."""
        self._admission.known(recording_id)
        session = self._active.session(recording_id)
        if session is None:
            return 0
        session.abort("stop recording by identity")
        owner = self._active.owner(recording_id)
        was_stopped = owner.is_stopped
        self._subscriptions.forget(owner)
        self._active.touch()
        return 0 if was_stopped else 1

    # State

    def list_subscriptions(
        self,
        requester: Requester,
        correlation_id: int,
        pseudo_index: int,
        count: int,
        apply_stream_id: bool,
        stream_id: int,
        channel_fragment: str,
    ) -> SubscriptionListing | None:
        """Begin to list ``count`` subscriptions from the one at ``pseudo_index`` on, those of a stream id if that
        applies, with a fragment in their channel. ``None`` if the answer was SUBSCRIPTION_UNKNOWN."""
        all_of_them = [each.subscription for each in self._subscriptions]
        if not 0 <= pseudo_index < len(all_of_them) or count <= 0:
            requester.send_unknown_subscription(correlation_id)
            return None
        found = [
            (each.registration_id, each.stream_id, each.channel)
            for each in all_of_them[pseudo_index:]
            if channel_fragment in each.channel and not (apply_stream_id and each.stream_id != stream_id)
        ]
        return SubscriptionListing(requester, correlation_id, found, count)

    def subscription(self, subscription_id: int) -> Subscription | None:
        """The driver's subscription with an id that :meth:`start` or :meth:`extend` returned, until it is stopped."""
        found = self._subscriptions.by_id(subscription_id)
        return None if found is None else found.subscription

    @property
    def active_count(self) -> int:
        """How many images are being recorded."""
        return len(self._active)

    def is_active(self, recording_id: int) -> bool:
        """Whether an image is being recorded into the recording, or its stop position could not be written yet."""
        return recording_id in self._active

    def recording_position(self, recording_id: int) -> int:
        """The position up to which an active recording is recorded; -1 for any other."""
        position = self._active.recorded_position(recording_id)
        return NULL_POSITION if position is None else position

    def recorded_position(self, recording_id: int) -> int | None:
        """Like :meth:`recording_position`, but ``None`` for a recording that is not active."""
        return self._active.recorded_position(recording_id)

    # Work

    @property
    def scan(self) -> Condition:
        """Shows whether images have something to record."""
        return self._active.scan

    @property
    def is_quiet(self) -> bool:
        """Whether only :attr:`scan` and :meth:`quiet_until` show when there is work."""
        return self._active.is_quiet

    def quiet_until(self) -> int:
        """When a stop that failed is tried again, in nanoseconds of the clock of ``do_work``."""
        return self._active.quiet_until()

    def do_work(self, now_ns: int) -> int:
        """Begin to record the images that have come, and record a block of each. Returns the amount of work done."""
        if self._aeron.is_closed:
            return 0
        return self._active.do_work(self._subscriptions, self._admission, now_ns)

    def close(self) -> None:
        """End all recordings in good order: they get their stop positions, and clients the signals. Closes the
        subscriptions, too. A second call does nothing."""
        self._active.close(self._subscriptions)
        for subscription in self._subscriptions:
            self._subscriptions.stop(subscription, "archive closed")
        if self._events is not None:
            self._events.close()

    def abort(self) -> None:
        """End as a crash does: recordings stay active in the catalog. Opening the folder again recovers them."""
        self._active.abandon()


def _unknown_subscription(where: str, message: str) -> ArchiveError:
    error = ArchiveError(where, found="no recording of it", expected="one that was started", message=message)
    return error.coded(ErrorCode.UNKNOWN_SUBSCRIPTION)
