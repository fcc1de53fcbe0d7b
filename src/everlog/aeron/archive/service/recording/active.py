"""The recordings in progress: begins one for each image, runs them, and ends them. Source: ArchiveConductor
(startRecordingSession, extendRecordingSession, closeRecordingSession), RecordingPos."""

from __future__ import annotations

from collections import deque

from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import (
    RECORDING_POSITION_TYPE_ID,
    recording_position_key,
    recording_position_label,
)
from everlog.aeron.archive.service.recording.admission import Admission
from everlog.aeron.archive.service.recording.session import RecordingSession, SessionSurroundings
from everlog.aeron.archive.service.recording.streams import check_image_extends, parameters_of_image
from everlog.aeron.archive.service.recording.subscriptions import RecordedSubscription, Subscriptions
from everlog.aeron.archive.service.recording.unstopped import UnstoppedRecordings
from everlog.aeron.archive.service.transfers import Transfers
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.archive.writing.stream_parameters import StreamParameters
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_scan import ImageScan
from everlog.errors import EverlogError


class ActiveRecordings:
    """The sessions that record images, by recording id."""

    def __init__(
        self, context: ServiceContext, surroundings: SessionSurroundings, transfers: Transfers | None = None
    ) -> None:
        self._context = context
        self._transfers = transfers
        self._surroundings = surroundings
        self._arrived: deque[tuple[RecordedSubscription, Image]] = deque()
        self._sessions: dict[int, tuple[RecordingSession, RecordedSubscription]] = {}
        self._unwanted: list[Image] = []
        self.scan: ImageScan[tuple[RecordingSession, RecordedSubscription]] = ImageScan(notices_ends=True)
        """Shows which of the images have something to record, or have ended."""
        # The scan shows neither that another thread has ended a session, nor that an event has to be sent again.
        self._runs_all = transfers is not None or surroundings.events is not None
        self._are_all_due = False
        self._unstopped = UnstoppedRecordings()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, recording_id: int) -> bool:
        return recording_id in self._sessions or recording_id in self._unstopped

    def session(self, recording_id: int) -> RecordingSession | None:
        """The session of a recording; ``None`` if no image is being recorded."""
        found = self._sessions.get(recording_id)
        return None if found is None else found[0]

    def recorded_position(self, recording_id: int) -> int | None:
        """The position up to which a recording is recorded; ``None`` if it is not active."""
        found = self._sessions.get(recording_id)
        return self._unstopped.recorded_position(recording_id) if found is None else found[0].recorded_position

    def owner(self, recording_id: int) -> RecordedSubscription:
        """The subscription of an active recording."""
        return self._sessions[recording_id][1]

    def on_image(self, owner: RecordedSubscription, image: Image) -> None:
        """Remember an image until the next cycle: the client of the driver accepts no calls in its handlers."""
        self._arrived.append((owner, image))

    def touch(self) -> None:
        """Run all sessions in the next cycle, even those whose images have nothing new: some were stopped."""
        self._are_all_due = True

    @property
    def is_quiet(self) -> bool:
        """Whether only the scan and :meth:`quiet_until` show when there is work."""
        needs_cycles = self._runs_all and len(self._sessions) > 0
        return not (self._are_all_due or self._arrived or self._unwanted or needs_cycles)

    def quiet_until(self) -> int:
        """When a stop that failed is tried again, in nanoseconds of the clock of ``do_work``."""
        return self._unstopped.quiet_until()

    def _due(self) -> list[tuple[RecordingSession, RecordedSubscription]]:
        if self._are_all_due or self._runs_all:
            self._are_all_due = False
            return list(self._sessions.values())
        return self.scan.due()

    def do_work(self, subscriptions: Subscriptions, admission: Admission, now_ns: int) -> int:
        """Begin to record what has come, and run each session that is due. Returns the amount of work done."""
        done = 0
        while self._arrived:
            owner, image = self._arrived.popleft()
            done += 1
            if owner.is_stopped or not self._begin(owner, image, subscriptions, admission):
                self._unwanted.append(image)
        self._pass_over_unwanted()
        for session, owner in self._due():
            done += session.do_work(now_ns)
            if session.is_done:
                self._release(session, owner, subscriptions)
        return done + self._unstopped.do_work(now_ns)

    def _pass_over_unwanted(self) -> None:
        """Read past what is not recorded. The original leaves such an image unread, which holds up its publisher: with
        a recording that does not fit, a client could stop the requests of all others."""
        for image in self._unwanted[:]:
            if image.is_closed:
                self._unwanted.remove(image)
            else:
                image.block_poll(_ignore, image.term_buffer_length)

    # Begin

    def _begin(
        self, owner: RecordedSubscription, image: Image, subscriptions: Subscriptions, admission: Admission
    ) -> bool:
        """Returns false if the image is not to be recorded; true also if it is, but can't be."""
        request = owner.request
        try:
            recorder, stream = self._start(owner, image, admission)
            position = self._add_counter(recorder, stream)
        except Exception as error:
            self._context.on_error(error)
            code = error.code if isinstance(error, ArchiveError) else ErrorCode.GENERIC
            text = (error.message if isinstance(error, EverlogError) else None) or str(error)
            request.requester.send_error(request.correlation_id, code, text)
            if request.auto_stop:
                subscriptions.stop(owner, text)
                self.touch()
            return not isinstance(error, ArchiveError)
        session = RecordingSession(request, image, owner.registration_id, recorder, position, self._surroundings)
        owner.sessions.append(session)
        self._sessions[session.recording_id] = session, owner
        if not self._runs_all:
            self.scan.add(image, self._sessions[session.recording_id])
        self.touch()
        session.signal_start()
        if self._transfers is not None:
            self._transfers.add(session)
        return True

    def _start(
        self, owner: RecordedSubscription, image: Image, admission: Admission
    ) -> tuple[Recorder, StreamParameters]:
        request, active = owner.request, self._context.archive.active
        stream = parameters_of_image(image, request.channel)
        if request.recording_id is None:
            return active.start_stream(stream), stream  # only an extension's ids go to the catalog, as in the original
        recording = admission.known(request.recording_id)
        admission.check_extensible(recording, f"streamId={image.stream_id} channel={request.channel}")
        check_image_extends(recording, image)
        return active.extend_stream(
            request.recording_id,
            stream,
            control_session_id=request.requester.session_id,
            correlation_id=request.correlation_id,
        ), stream

    def _add_counter(self, recorder: Recorder, stream: StreamParameters) -> Counter:
        """Add the counter of a recording's position; ends the recording if the driver refuses."""
        recording_id, archive_id = recorder.recording_id, self._context.archive_id
        key = recording_position_key(recording_id, stream.session_id, stream.source_identity, archive_id)
        label = recording_position_label(
            recording_id, stream.session_id, stream.stream_id, stream.stripped_channel, archive_id
        )
        try:
            position = self._context.aeron.add_counter(RECORDING_POSITION_TYPE_ID, label, key)
            position.value = stream.join_position
        except BaseException:
            self._stop_unused(recorder)
            raise
        return position

    def _stop_unused(self, recorder: Recorder) -> None:
        try:
            recorder.stop(may_retry=True)
        except EverlogError as error:
            self._context.on_error(error)
            if not recorder.is_cataloged and not recorder.is_lost:
                self._unstopped.add(recorder, lambda position: None)

    # End

    def _release(self, session: RecordingSession, owner: RecordedSubscription, subscriptions: Subscriptions) -> None:
        if session.unstopped is not None:  # first, so that the replayer's thread sees it active all the time
            self._unstopped.add(session.unstopped, session.report_stop)
        del self._sessions[session.recording_id]
        if self._transfers is not None:
            self._transfers.remove(session)
        self.scan.discard(session.image)
        self.touch()  # others may have been stopped along with it
        subscriptions.ended(owner, session)
        session.close()
        if not session.has_failed:  # it was stopped, and other recordings of its subscription may go on
            self._unwanted.append(session.image)

    def close(self, subscriptions: Subscriptions, now_ns: int = 0) -> None:
        """End all sessions in good order: what is recorded by now stays, and each gets its stop position. The thread
        that transferred them has ended."""
        self._arrived.clear()
        for session, owner in tuple(self._sessions.values()):
            session.abort("archive closed")
            session.transfer()
            session.do_work(now_ns)
            self._release(session, owner, subscriptions)
        self._unstopped.close()

    def abandon(self) -> None:
        """Leave all recordings active, as the death of the process does."""
        self._arrived.clear()
        for session, _ in self._sessions.values():
            session.abandon()
            self.scan.discard(session.image)
        self._sessions.clear()
        self._unstopped.abandon()


def _ignore(block: memoryview, session_id: int, term_id: int) -> None:
    """Do nothing with a block."""
