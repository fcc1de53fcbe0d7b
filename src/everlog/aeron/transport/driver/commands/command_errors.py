"""Why a client's command was refused: error codes, and texts as Aeron's own driver sends and logs them. Source:
ErrorCode, ControlProtocolException, InvalidChannelException, ClientCommandAdapter.

Java's driver sends the message of a ``ControlProtocolException`` as it is (it begins with ``ERROR - ``, or is the text
of the exception that caused it), and any other exception as ``class name : message`` with the code
:attr:`ErrorCode.GENERIC_ERROR`. Its error log has ``class name: message``. Programs search these texts, so they are the
same here.
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
    """A command that the driver does not carry out. ``code`` and ``text`` are what its client is told; ``java`` is the
    error log's first line, ``None`` where a client is only asked to come again, which is no error of the driver's."""

    def __init__(self, code: ErrorCode, text: str, java: JavaException | None) -> None:
        self.code = code
        self.text = text
        self.java = java
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return CommandRefused, (self.code, self.text, self.java)


def refused(code: ErrorCode, message: str) -> CommandRefused:
    """As a ``ControlProtocolException``."""
    return _told(code, JavaException(CONTROL_PROTOCOL, f"ERROR - {message}"))


def _told(code: ErrorCode, java: JavaException) -> CommandRefused:
    """Its client is told the message alone."""
    return CommandRefused(code, java.message, java)


def generic(java: JavaException) -> CommandRefused:
    """As an exception that is none of Aeron's protocol."""
    return CommandRefused(ErrorCode.GENERIC_ERROR, f"{java.name} : {java.message}", java)


def caused(cause: JavaException) -> CommandRefused:
    """As an ``InvalidChannelException`` that another exception caused."""
    return _told(ErrorCode.INVALID_CHANNEL, JavaException(INVALID_CHANNEL, str(cause)))


def invalid_channel(message: str) -> CommandRefused:
    """As an ``InvalidChannelException``."""
    return _told(ErrorCode.INVALID_CHANNEL, JavaException(INVALID_CHANNEL, f"ERROR - {message}"))


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
    return CommandRefused(ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE, message, None)


def illegal_argument(message: str) -> CommandRefused:
    """As an ``IllegalArgumentException``."""
    return generic(JavaException(ILLEGAL_ARGUMENT, message))


def illegal_state(message: str) -> CommandRefused:
    """As an ``IllegalStateException``."""
    return generic(JavaException(ILLEGAL_STATE, message))


def number_format(text: str) -> CommandRefused:
    """As a ``NumberFormatException`` of ``Integer.parseInt``."""
    return generic(for_input(text))


def configuration_error(message: str) -> CommandRefused:
    """As a ``ConfigurationException``."""
    return generic(JavaException(CONFIGURATION, f"ERROR - {message}"))


def no_space(message: str) -> CommandRefused:
    """As a ``StorageSpaceException``."""
    return _told(ErrorCode.STORAGE_SPACE, JavaException(STORAGE_SPACE, f"ERROR - {message}"))


def as_refused(error: BaseException) -> CommandRefused:
    """What a client is told about any error: a :class:`UsageError` is one of its channel, a :class:`WriteFailed` of
    the driver's disk."""
    if isinstance(error, CommandRefused):
        return error
    java = getattr(error, "java", None)
    if isinstance(error, InvalidChannel) and java is not None:
        return generic(java) if isinstance(error, TagMismatch) else caused(java)
    if isinstance(error, UsageError):
        if error.found is None:
            return _told(ErrorCode.INVALID_CHANNEL, JavaException(CONTROL_PROTOCOL, f"ERROR - {error}"))
        return caused(JavaException(ILLEGAL_ARGUMENT, str(error)))
    if isinstance(error, ChannelFailed):
        return generic(JavaException(AERON, f"ERROR - {error}"))
    if isinstance(error, WriteFailed):
        return no_space(str(error))
    return generic(java or JavaException(f"{type(error).__module__}.{type(error).__qualname__}", str(error)))


def as_logged(error: BaseException) -> JavaException | None:
    """The error log's first line of any error; ``None`` for one that Java has no word for."""
    java: JavaException | None = getattr(error, "java", None)
    is_plain = java is None and isinstance(error, UsageError | ChannelFailed | WriteFailed)
    return as_refused(error).java if is_plain or isinstance(error, InvalidChannel) else java
