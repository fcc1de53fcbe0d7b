"""The seam between a control session and the parts of the service that do what it asks for."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.messages import Message


class Requester(Protocol):
    """The control session that sent a request. What it sends is queued if the client's stream is full, in order."""

    @property
    def session_id(self) -> int:
        """The control session's id."""

    @property
    def is_done(self) -> bool:
        """Whether the session has ended: what is sent goes nowhere."""

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        """Answer OK."""

    def send_error(self, correlation_id: int, code: ErrorCode, text: str) -> None:
        """Answer ERROR with a code and a text."""

    def send_unknown_recording(self, correlation_id: int, recording_id: int) -> None:
        """Answer RECORDING_UNKNOWN."""

    def send_unknown_subscription(self, correlation_id: int) -> None:
        """Answer SUBSCRIPTION_UNKNOWN."""

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: RecordingSignal
    ) -> None:
        """Tell the client of a recording signal."""

    def try_send(self, message: Message | bytes) -> bool:
        """Send now, or return false if the stream is full or something is queued: the caller tries again later."""


class Session(Protocol):
    """Work that takes many duty cycles: a recording, a replay, a listing, a deletion."""

    @property
    def is_done(self) -> bool:
        """Whether the work has ended. The session is then closed and forgotten."""

    def do_work(self, now_ns: int) -> int:
        """Do some of the work; returns how much."""

    def abort(self, reason: str) -> None:
        """End at the next cycle. A second call does nothing."""

    def close(self) -> None:
        """Release what the session holds. A second call does nothing."""
