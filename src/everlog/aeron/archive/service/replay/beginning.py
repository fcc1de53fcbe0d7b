"""A replay whose publication is being added. Source: CreateReplayPublicationSession."""

from __future__ import annotations

import contextlib

from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.channels import refusal_text
from everlog.aeron.archive.service.replay.limits import Limit
from everlog.aeron.archive.service.replay.refusals import Range
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.format.error_codes import ErrorCode as DriverErrorCode
from everlog.errors import EverlogError


class Beginning:
    """Adds the publication of a replay, without waiting. To others it is a replay in state INIT, without a session id
    yet."""

    state_name = "INIT"
    session_id = 0

    def __init__(
        self,
        *,
        requester: Requester,
        correlation_id: int,
        recording: Recording,
        range: Range,
        limit: Limit | None,
        block_length: int,
        channel: str,
        stream_id: int,
    ) -> None:
        self.requester = requester
        self.correlation_id = correlation_id
        self.recording = recording
        self.recording_id = recording.recording_id
        self.range = range
        self.position = range.position
        self.segment_base = segment_map(recording).base(range.position)
        self.limit = limit
        self.block_length = block_length
        self.channel = channel
        self.stream_id = stream_id
        self.is_done = False
        """Whether the start of the replay has failed; the client has received the error."""
        self._adding: Registration[ExclusivePublication] | None = None
        self._is_aborted = False

    def close(self) -> None:
        """End at the next cycle; any thread may call it."""
        self._is_aborted = True

    def poll(self, aeron: Aeron) -> ExclusivePublication | None:
        """Return the publication, once. Asks again while the driver is short of resources and the client is there."""
        if self._is_aborted or self.requester.is_done:
            self.cancel()
            self._refuse("replay aborted")
            return None
        try:
            if self._adding is None:
                self._adding = aeron.async_add_exclusive_publication(self.channel, self.stream_id)
            if not self._adding.done:
                return None
            adding, self._adding = self._adding, None
            return adding.result()
        except RegistrationRefused as error:
            if error.error_code != DriverErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE:
                self._refuse(f"failed to create replay publication: {refusal_text(error)}")
        except EverlogError as error:
            self._refuse(f"failed to create replay publication: {error}")
        return None

    def cancel(self) -> None:
        """Give up; the client gives back what the driver still grants."""
        self.is_done = True
        adding, self._adding = self._adding, None
        if adding is None:
            return
        if not adding.done:
            adding.cancel()
            return
        with contextlib.suppress(EverlogError):  # if it was refused: there is nothing to give back
            adding.result().revoke()

    def _refuse(self, text: str) -> None:
        self.is_done = True
        self.requester.send_error(self.correlation_id, ErrorCode.GENERIC, text)
