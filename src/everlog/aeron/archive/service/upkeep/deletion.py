"""The deletion of a recording's segment files, one a cycle. Source: DeleteSegmentsSession."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.archive.maintenance.changes import Remove
from everlog.aeron.archive.maintenance.segment_changes import Application
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.errors import EverlogError, StoreUnavailable, WriteFailed

NULL_ID = -1


class Deletion:
    """Applies the rest of a change, and then sends DELETE. ``is_ready`` says whether it may begin: a truncation waits
    until the recording's replays have ended. ``folder`` is the archive's, for the text of an error. ``highest`` is the
    last position in what goes. ``check`` raises :class:`StoreUnavailable` if the folder has another owner: then no
    further file is deleted, and DELETE is not sent. ``end`` is called when it is closed."""

    def __init__(
        self,
        recording_id: int,
        change: Application,
        requester: Requester,
        correlation_id: int,
        *,
        folder: str,
        highest: int,
        is_ready: Callable[[], bool],
        check: Callable[[], object],
        end: Callable[[Deletion], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.recording_id = recording_id
        self.highest = highest
        self._folder = folder
        self._change = change
        self._requester = requester
        self._correlation_id = correlation_id
        self._is_ready = is_ready
        self._check = check
        self._end = end
        self._on_error = on_error
        self._is_done = self._is_closed = self._is_folder_lost = False

    @property
    def is_done(self) -> bool:
        """Whether the files are gone, or could not be deleted."""
        return self._is_done

    def do_work(self, now_ns: int) -> int:
        """Apply one step. Returns the number of steps applied."""
        if self._is_done or not self._is_ready():
            return 0
        step = self._change.next_step
        try:
            if step is not None:
                self._check()
                self._change.apply_next()
        except EverlogError as error:
            self._is_folder_lost = isinstance(error, StoreUnavailable) and not isinstance(error, WriteFailed)
            text = str(error)
            if isinstance(step, Remove) and not self._is_folder_lost:
                text = f"unable to delete segment file: {self._folder}/{step.file}"
            self._requester.send_error(self._correlation_id, ErrorCode.GENERIC, text)
            self._on_error(error)
            self._is_done = True
            return 1
        self._is_done = self._change.is_done
        return 1

    def abort(self, reason: str) -> None:
        """Do nothing: the deletion goes on to its end."""

    def close(self) -> None:
        """Send the signal. If steps are left, opening the folder or repeating the request finishes them."""
        if self._is_closed:
            return
        self._is_closed = self._is_done = True
        self._end(self)
        if self._is_folder_lost:
            return
        ids = self._correlation_id, self.recording_id, NULL_ID
        self._requester.send_signal(*ids, NULL_POSITION, RecordingSignal.DELETE)
