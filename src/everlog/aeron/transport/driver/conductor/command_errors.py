"""Why a client's command was refused: error codes, and texts as Aeron's own driver sends them. Source: ErrorCode,
ControlProtocolException, ClientCommandAdapter.

Java's driver sends the message of a ``ControlProtocolException`` as it is (it begins with ``ERROR - `` or ``WARN - ``),
and any other exception as ``class name : message`` with the code :attr:`ErrorCode.GENERIC_ERROR`. Programs look into
these texts, so they are the same here.
"""

from __future__ import annotations

from everlog.aeron.transport.error_codes import ErrorCode
from everlog.aeron.transport.media.context import ChannelFailed
from everlog.aeron.transport.media.name_resolver import UnknownHost
from everlog.errors import EverlogError, UsageError, WriteFailed


class CommandRefused(EverlogError):
    """A command that the driver does not carry out. ``code`` and ``text`` are what its client is told; ``is_logged`` is
    false where a client is only asked to come again, which is no error of the driver's log."""

    def __init__(self, code: ErrorCode, text: str, *, is_logged: bool = True) -> None:
        self.code = code
        self.text = text
        self.is_logged = is_logged
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return CommandRefused, (self.code, self.text), {"is_logged": self.is_logged}


def refused(code: ErrorCode, message: str) -> CommandRefused:
    """As a ``ControlProtocolException``."""
    return CommandRefused(code, f"ERROR - {message}")


def invalid_channel(message: str) -> CommandRefused:
    """As an ``InvalidChannelException``."""
    return refused(ErrorCode.INVALID_CHANNEL, message)


def unknown_publication(registration_id: int) -> CommandRefused:
    """There is no such publication."""
    return refused(ErrorCode.UNKNOWN_PUBLICATION, f"unknown publication: {registration_id}")


def unknown_subscription(registration_id: int, kind: str = "") -> CommandRefused:
    """There is no such subscription; ``kind`` is ``MDS`` where one with destinations was asked for."""
    words = f"unknown {kind} subscription" if kind else "unknown subscription"
    return refused(ErrorCode.UNKNOWN_SUBSCRIPTION, f"{words}: {registration_id}")


def unknown_counter(registration_id: int) -> CommandRefused:
    """There is no such counter."""
    return refused(ErrorCode.UNKNOWN_COUNTER, f"unknown counter: {registration_id}")


def temporarily_unavailable(message: str) -> CommandRefused:
    """The client may try again. Java's driver sends this text without a category before it."""
    return CommandRefused(ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE, message, is_logged=False)


def illegal_argument(message: str) -> CommandRefused:
    """As an ``IllegalArgumentException``."""
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"java.lang.IllegalArgumentException : {message}")


def illegal_state(message: str) -> CommandRefused:
    """As an ``IllegalStateException``."""
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"java.lang.IllegalStateException : {message}")


def number_format(text: str) -> CommandRefused:
    """As a ``NumberFormatException`` of ``Integer.parseInt``."""
    message = f'java.lang.NumberFormatException : For input string: "{text}"'
    return CommandRefused(ErrorCode.GENERIC_ERROR, message)


def as_refused(error: Exception) -> CommandRefused:
    """What a client is told about any error: a :class:`UsageError` is one of its channel, a :class:`WriteFailed` of
    the driver's disk."""
    if isinstance(error, CommandRefused):
        return error
    if isinstance(error, UnknownHost):
        return CommandRefused(ErrorCode.INVALID_CHANNEL, f"java.net.UnknownHostException: {error.found}")
    if isinstance(error, UsageError):
        kind = "ERROR -" if error.found is None else "java.lang.IllegalArgumentException:"
        return CommandRefused(ErrorCode.INVALID_CHANNEL, f"{kind} {error}")
    if isinstance(error, ChannelFailed):
        return CommandRefused(ErrorCode.GENERIC_ERROR, f"io.aeron.exceptions.AeronException : ERROR - {error}")
    if isinstance(error, WriteFailed):
        return CommandRefused(ErrorCode.STORAGE_SPACE, f"ERROR - {error}")
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"{type(error).__module__}.{type(error).__qualname__} : {error}")
