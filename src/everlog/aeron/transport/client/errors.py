"""What a client of a media driver raises. All are :class:`~everlog.errors.EverlogError`; the driver's own codes are in
:class:`~everlog.aeron.transport.format.error_codes.ErrorCode`."""

from __future__ import annotations

from everlog.aeron.transport.format.error_codes import ErrorCode, error_code_name
from everlog.errors import EverlogError, StoreUnavailable, UsageError

_HINTS = {
    ErrorCode.INVALID_CHANNEL: "the channel's parameters do not fit each other, or those of what is there already",
    ErrorCode.UNKNOWN_COMMAND_TYPE_ID: "the driver is of a release that does not have this command",
    ErrorCode.NOT_SUPPORTED: "the driver can't do this",
    ErrorCode.UNKNOWN_HOST: "is the name right, and does it resolve on the driver's machine?",
    ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE: "try again in a moment",
    ErrorCode.STORAGE_SPACE: "the driver's folder has no room for the terms: ask for a shorter term-length",
}


class RegistrationRefused(UsageError):
    """The driver answered a command with an error. ``found`` begins with the code's name, as in :class:`ErrorCode`, and
    then has the driver's own words; ``error_code`` is the number."""

    @classmethod
    def of(cls, what: str, error_code: int, message: str) -> RegistrationRefused:
        """``what``: the command, such as ``add-publication aeron:ipc, stream 1001``."""
        hint = next((text for code, text in _HINTS.items() if code == error_code), None)
        return cls(what, found=f"{error_code_name(error_code)}: {message}", expected="the driver's consent", hint=hint)

    @property
    def error_code(self) -> int:
        """The driver's number for it; see :class:`ErrorCode`."""
        name = (self.found or "").partition(":")[0]
        return int(name.removeprefix("error ")) if name.startswith("error ") else int(ErrorCode[name])


class DriverTimeout(StoreUnavailable):
    """No driver is there, it was shut down or killed, or it did not answer in time."""


class ClientTimeout(StoreUnavailable):
    """The driver gave this client up, because it did not say in time that it lives; all that it had is gone."""


class ChannelEndpointFailed(StoreUnavailable):
    """A channel that was added has failed since, such as one whose name resolves no more."""


class ClientClosed(UsageError):
    """The client, or the publication or subscription, was closed before."""


def ended(what: str, failure: EverlogError | None) -> EverlogError:
    """Why ``what`` can't be used: the error that ended the client, else that it was closed. Without the traceback of
    who met the error before, which would grow with every raise."""
    if failure is None:
        return ClientClosed(what, found="it is closed", expected="an open one")
    return failure.with_traceback(None)


class NotConnected(EverlogError):
    """A publication has no subscriber."""


class BackPressured(EverlogError):
    """Subscribers did not take in time what was sent before."""


class MaxPositionExceeded(EverlogError):
    """A publication has used up all term ids: a new one is needed, with another session id."""
