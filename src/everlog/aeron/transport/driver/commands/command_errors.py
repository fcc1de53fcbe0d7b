"""Refusals of clients' commands: error codes, and texts as Aeron's own driver sends and logs them. Source: ErrorCode,
ControlProtocolException, InvalidChannelException, ClientCommandAdapter.

Java's driver sends the bare message of a ``ControlProtocolException`` (it begins with ``ERROR - ``, or is the text of
the exception's cause), and any other exception as ``class name : message`` with the code
:attr:`ErrorCode.GENERIC_ERROR`. Its error log has ``class name: message``. Programs search for these texts, so
everlog's are identical.
"""

from __future__ import annotations

from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, ILLEGAL_STATE, JavaException, for_input
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.media.context import ChannelFailed
from everlog.aeron.transport.media.udp_channel import TagMismatch
from everlog.errors import EverlogError, UsageError, WriteFailed

CONTROL_PROTOCOL = "io.aeron.exceptions.ControlProtocolException"
INVALID_CHANNEL = "io.aeron.driver.exceptions.InvalidChannelException"
CONFIGURATION = "io.aeron.exceptions.ConfigurationException"
STORAGE_SPACE = "io.aeron.exceptions.StorageSpaceException"
AERON = "io.aeron.exceptions.AeronException"


class CommandRefused(EverlogError):
    """A command was refused. ``code`` and ``text`` are sent to the client. ``java`` is the first line in the error log;
    ``None`` logs nothing, because the client is only asked to retry."""

    def __init__(self, code: ErrorCode, text: str, java: JavaException | None) -> None:
        self.code = code
        self.text = text
        self.java = java
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return CommandRefused, (self.code, self.text, self.java)


def refused(code: ErrorCode, message: str) -> CommandRefused:
    """Return a refusal like that of a ``ControlProtocolException``."""
    return _with_bare_message(code, JavaException(CONTROL_PROTOCOL, f"ERROR - {message}"))


def _with_bare_message(code: ErrorCode, java: JavaException) -> CommandRefused:
    """Return a refusal with the message alone, without the exception's class."""
    return CommandRefused(code, java.message, java)


def generic(java: JavaException) -> CommandRefused:
    """Return a refusal like that of an exception outside Aeron's protocol, with its class name."""
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"{java.name} : {java.message}", java)


def caused(cause: JavaException) -> CommandRefused:
    """Return a refusal like that of an ``InvalidChannelException`` with a cause."""
    return _with_bare_message(ErrorCode.INVALID_CHANNEL, JavaException(INVALID_CHANNEL, str(cause)))


def invalid_channel(message: str) -> CommandRefused:
    """Return a refusal like that of an ``InvalidChannelException``."""
    return _with_bare_message(ErrorCode.INVALID_CHANNEL, JavaException(INVALID_CHANNEL, f"ERROR - {message}"))


def unknown_publication(registration_id: int) -> CommandRefused:
    """Return the refusal of a command for an unknown publication."""
    return refused(ErrorCode.UNKNOWN_PUBLICATION, f"unknown publication: {registration_id}")


def unknown_subscription(registration_id: int, kind: str = "") -> CommandRefused:
    """Return the refusal of a command for an unknown subscription. ``kind`` is ``MDS`` if the subscription must be
    multi-destination."""
    words = f"unknown {kind} subscription" if kind else "unknown subscription"
    return refused(ErrorCode.UNKNOWN_SUBSCRIPTION, f"{words}: {registration_id}")


def unknown_counter(registration_id: int) -> CommandRefused:
    """Return the refusal of a command for an unknown counter."""
    return refused(ErrorCode.UNKNOWN_COUNTER, f"unknown counter: {registration_id}")


def temporarily_unavailable(message: str) -> CommandRefused:
    """Return a refusal that asks the client to retry. Java's driver sends this text without a leading category."""
    return CommandRefused(ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE, message, None)


def illegal_argument(message: str) -> CommandRefused:
    """Return a refusal like that of an ``IllegalArgumentException``."""
    return generic(JavaException(ILLEGAL_ARGUMENT, message))


def illegal_state(message: str) -> CommandRefused:
    """Return a refusal like that of an ``IllegalStateException``."""
    return generic(JavaException(ILLEGAL_STATE, message))


def number_format(text: str) -> CommandRefused:
    """Return a refusal like that of a ``NumberFormatException`` of ``Integer.parseInt``."""
    return generic(for_input(text))


def configuration_error(message: str) -> CommandRefused:
    """Return a refusal like that of a ``ConfigurationException``."""
    return generic(JavaException(CONFIGURATION, f"ERROR - {message}"))


def no_space(message: str) -> CommandRefused:
    """Return a refusal like that of a ``StorageSpaceException``."""
    return _with_bare_message(ErrorCode.STORAGE_SPACE, JavaException(STORAGE_SPACE, f"ERROR - {message}"))


def as_refused(error: BaseException) -> CommandRefused:
    """Convert any error to a refusal. A :class:`UsageError` is reported as an invalid channel, a :class:`WriteFailed`
    as missing storage space."""
    if isinstance(error, CommandRefused):
        return error
    java = getattr(error, "java", None)
    if isinstance(error, InvalidChannel) and java is not None:
        return generic(java) if isinstance(error, TagMismatch) else caused(java)
    if isinstance(error, UsageError):
        if error.found is None:
            return _with_bare_message(ErrorCode.INVALID_CHANNEL, JavaException(CONTROL_PROTOCOL, f"ERROR - {error}"))
        return caused(JavaException(ILLEGAL_ARGUMENT, str(error)))
    if isinstance(error, ChannelFailed):
        return generic(JavaException(AERON, f"ERROR - {error}"))
    if isinstance(error, WriteFailed):
        return no_space(str(error))
    return generic(java or JavaException(f"{type(error).__module__}.{type(error).__qualname__}", str(error)))


def as_logged(error: BaseException) -> JavaException | None:
    """The first line of an error in the error log; ``None`` for errors without a Java counterpart."""
    java: JavaException | None = getattr(error, "java", None)
    is_plain = java is None and isinstance(error, UsageError | ChannelFailed | WriteFailed)
    return as_refused(error).java if is_plain or isinstance(error, InvalidChannel) else java
