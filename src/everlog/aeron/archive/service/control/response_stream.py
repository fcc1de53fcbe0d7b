"""The publication on which a control session's answers go out."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.format.counters import VALUE_LENGTH
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.format.layouts import CounterValue

_REFERENCE_AT = CounterValue.field("reference_id").offset


class ResponseStream(Protocol):
    """What a control session sends on."""

    def is_ready(self) -> bool:
        """Whether the publication exists. Raises :class:`EverlogError` if the driver refuses it for good."""

    @property
    def is_connected(self) -> bool:
        """Whether the client has subscribed."""

    def offer(self, data: bytes) -> int:
        """Send a message: a position, or what a publication's ``offer`` returns instead of one."""

    def close(self) -> None:
        """End the stream; what the client has not read is revoked."""


class PublishedResponses:
    """A response stream on an exclusive publication, which is added without waiting, and the session's counter."""

    def __init__(
        self, aeron: Aeron, channel: str, stream_id: int, session_id: int, counter: Registration[Counter]
    ) -> None:
        self.channel = channel
        self.stream_id = stream_id
        self._aeron = aeron
        self._session_id = session_id
        self._adding: Registration[ExclusivePublication] | None = None
        self._publication: ExclusivePublication | None = None
        self._adding_counter = counter
        self._counter: Counter | None = None

    def is_ready(self) -> bool:
        """Add the publication and its counter; try again while the driver is short of resources."""
        if self._publication is None:
            self._publication = self._added()
        if self._counter is None and self._adding_counter.done:
            self._counter = self._adding_counter.result()
        if self._publication is None or self._counter is None:
            return False
        at = self._counter.counter_id * VALUE_LENGTH + _REFERENCE_AT
        self._aeron.counters.values.put_i64(at, self._publication.registration_id)
        self._counter.value = self._session_id
        return True

    def _added(self) -> ExclusivePublication | None:
        if self._adding is None:
            self._adding = self._aeron.async_add_exclusive_publication(self.channel, self.stream_id)
        if not self._adding.done:
            return None
        adding, self._adding = self._adding, None
        try:
            return adding.result()
        except RegistrationRefused as error:
            if error.error_code != ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE:
                raise
            return None

    @property
    def is_connected(self) -> bool:
        """Whether the client has subscribed."""
        return self._publication is not None and self._publication.is_connected

    def offer(self, data: bytes) -> int:
        """Send a message."""
        assert self._publication is not None, "nothing is sent before the stream is ready"
        return self._publication.offer(data)

    def close(self) -> None:
        """Revoke the publication and free the counter."""
        if self._publication is not None:
            self._publication.revoke()
        elif self._adding is not None:
            self._adding.cancel()
        if self._counter is not None:
            self._counter.close()
        else:
            self._adding_counter.cancel()
