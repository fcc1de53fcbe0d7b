"""Errors that a client of a media driver raises; all are subclasses of :class:`~everlog.errors.EverlogError`. The
driver's error codes are in :class:`~everlog.aeron.transport.format.error_codes.ErrorCode`."""

from __future__ import annotations

from everlog.aeron.transport.format.error_codes import ErrorCode, error_code_name
from everlog.errors import Closed, EverlogError, StoreUnavailable, UsageError

_HINTS = {
    ErrorCode.INVALID_CHANNEL: "the channel's parameters contradict each other, or those of a channel in use",
    ErrorCode.UNKNOWN_COMMAND_TYPE_ID: "the driver's release does not have this command",
    ErrorCode.NOT_SUPPORTED: "the driver does not support this",
    ErrorCode.UNKNOWN_HOST: "check the name; it must resolve on the driver's machine",
    ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE: "try again in a moment",
    ErrorCode.STORAGE_SPACE: "the driver's folder has no space for the terms; choose a shorter term-length",
}


class RegistrationRefused(UsageError):
    """The driver answered a command with an error. ``found`` is the code's name, as in :class:`ErrorCode`, and the
    driver's message; ``error_code`` is the code's number."""

    @classmethod
    def of(cls, what: str, error_code: int, message: str) -> RegistrationRefused:
        """The error for a refused command; ``what`` describes it: ``add-publication aeron:ipc, stream 1001``."""
        hint = next((text for code, text in _HINTS.items() if code == error_code), None)
        found = f"{error_code_name(error_code)}: {message}"
        return cls(what, found=found, hint=hint, message=f"the driver refused {what}: {found}")

    @property
    def error_code(self) -> int:
        """The number of the driver's error code; see :class:`ErrorCode`."""
        name = (self.found or "").partition(":")[0]
        return int(name.removeprefix("error ")) if name.startswith("error ") else int(ErrorCode[name])


class DriverTimeout(StoreUnavailable):
    """No driver runs in the folder, it was shut down or killed, or it did not answer in time."""


class ClientTimeout(StoreUnavailable):
    """The driver timed this client out for lack of heartbeats and closed its publications, subscriptions and
    counters."""


class ChannelEndpointFailed(StoreUnavailable):
    """A channel failed after it was added, for example because its host name no longer resolves."""


def closed_error(what: str, failure: EverlogError | None) -> EverlogError:
    """The error for a use of ``what`` after its end: the one that ended the client, or
    :class:`~everlog.errors.Closed`. Drops the error's traceback, which would grow with every raise."""
    return Closed(what) if failure is None else failure.with_traceback(None)


class NotConnected(EverlogError):
    """The publication has no subscriber."""


class BackPressured(EverlogError):
    """Subscribers are too slow: they did not consume earlier messages in time."""


class MaxPositionExceeded(EverlogError):
    """The publication has used up its term ids. Add a new one, with another session id."""
