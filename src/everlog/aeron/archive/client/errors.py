"""Errors of an archive's client, besides :class:`~everlog.aeron.archive.recording.refusals.ArchiveError`, which is the
archive's own answer."""

from __future__ import annotations

from everlog.errors import StoreUnavailable

NULL_VALUE = -1


class ArchiveTimeout(StoreUnavailable):
    """The archive did not answer in time. ``was_sent`` says whether the request may have been done."""

    was_sent: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"was_sent": self.was_sent})


class SessionLost(StoreUnavailable):
    """The control session has ended: the archive stopped, was not reachable for too long, or closed the session.
    ``was_sent`` says whether the request may have been done; if not, it is safe to ask again."""

    was_sent: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"was_sent": self.was_sent})


def timeout(name: str, correlation_id: int, timeout_ns: int, *, was_sent: bool) -> ArchiveTimeout:
    """The error for a request without an answer."""
    found = f"no answer within {timeout_ns / 1e9:g} s" if was_sent else f"not sent within {timeout_ns / 1e9:g} s"
    error = ArchiveTimeout(_where(name, correlation_id), found=found, hint=_hint(was_sent=was_sent))
    error.was_sent = was_sent
    return error


def lost(name: str, correlation_id: int, reason: str, *, was_sent: bool) -> SessionLost:
    """The error for a request of a session that has ended; the correlation id is -1 if it was not even made."""
    found = f"the session with the archive is lost: {reason}"
    error = SessionLost(_where(name, correlation_id), found=found, hint=_hint(was_sent=was_sent))
    error.was_sent = was_sent
    return error


def _where(name: str, correlation_id: int) -> str:
    return name if correlation_id == NULL_VALUE else f"{name}, correlation id {correlation_id}"


def _hint(*, was_sent: bool) -> str:
    return "the archive may or may not have done it" if was_sent else "it was not sent: nothing was done"
