"""Recordings on their way to a client. Source: AbstractListRecordingsSession, ListRecordingsSession,
ListRecordingsForUriSession, ListRecordingByIdSession."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.service.queries.descriptors import descriptor_message
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter

MAX_SCANS = 256
"""Most recordings that one cycle looks at."""


class RecordingListing:
    """Sends the descriptors of at most ``count`` recordings from an id on, as fast as the client takes them. If there
    are fewer, RECORDING_UNKNOWN ends the list, with the id that follows the last valid one. ``accepts`` selects."""

    def __init__(
        self,
        catalog: CatalogWriter,
        requester: Requester,
        correlation_id: int,
        from_recording_id: int,
        count: int,
        accepts: Callable[[CatalogEntry], bool] = lambda entry: True,
    ) -> None:
        self._catalog = catalog
        self._requester = requester
        self._correlation_id = correlation_id
        self._next_id = self._unknown_id = from_recording_id
        self._left = count
        self._accepts = accepts
        self._is_done = count <= 0

    @property
    def is_done(self) -> bool:
        """Whether the list has ended."""
        return self._is_done or self._requester.is_done

    def do_work(self, now_ns: int) -> int:
        """Send what the client takes now. Returns the number of recordings looked at."""
        if self.is_done:
            return 0
        scanned = 0
        for recording_id in self._catalog.ids_from(self._next_id, MAX_SCANS):
            entry = self._catalog.entry(recording_id)
            if entry.state == "VALID":
                if self._accepts(entry):
                    message = descriptor_message(entry, self._requester.session_id, self._correlation_id)
                    if not self._requester.try_send(message):
                        return scanned
                    self._left -= 1
                self._unknown_id = recording_id + 1
            scanned += 1
            self._next_id = recording_id + 1
            if self._left == 0:
                self._is_done = True
                return scanned
        if scanned < MAX_SCANS:
            self._requester.send_unknown_recording(self._correlation_id, self._unknown_id)
            self._is_done = True
        return scanned

    def abort(self, reason: str) -> None:
        """End the list."""
        self._is_done = True

    def close(self) -> None:
        """End the list."""
        self._is_done = True


class RecordingAnswer:
    """Sends the descriptor of one recording; RECORDING_UNKNOWN if it is not valid any more when the client takes it."""

    def __init__(self, catalog: CatalogWriter, requester: Requester, correlation_id: int, recording_id: int) -> None:
        self._catalog = catalog
        self._requester = requester
        self._correlation_id = correlation_id
        self._recording_id = recording_id
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether the answer was sent, or nobody waits for it."""
        return self._is_done or self._requester.is_done

    def do_work(self, now_ns: int) -> int:
        """Send the answer if the client takes it now. Returns 1 if it was sent."""
        if self.is_done:
            return 0
        entry = self._catalog.entry(self._recording_id)
        if entry.state != "VALID":
            self._requester.send_unknown_recording(self._correlation_id, self._recording_id)
            self._is_done = True
        else:
            message = descriptor_message(entry, self._requester.session_id, self._correlation_id)
            self._is_done = self._requester.try_send(message)
        return int(self._is_done)

    def abort(self, reason: str) -> None:
        """Send nothing any more."""
        self._is_done = True

    def close(self) -> None:
        """Send nothing any more."""
        self._is_done = True
