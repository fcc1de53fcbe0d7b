"""Exceptions under their names in Aeron's Java driver. Programs and tools search the driver's error log and responses
for these texts, so ours writes the same. Source: Agrona, DistinctErrorLog; Aeron, AeronException, AeronEvent."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.errors import EverlogError

ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
NULL_POINTER = "java.lang.NullPointerException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
ASCII_NUMBER_FORMAT = "org.agrona.AsciiNumberFormatException"
UNKNOWN_HOST = "java.net.UnknownHostException"
AERON_EVENT = "io.aeron.exceptions.AeronEvent"


@dataclass(frozen=True, slots=True)
class JavaException:
    """An exception's class and message. Its text is that of Java's ``toString``."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class AeronEvent(EverlogError):
    """A warning in the driver's error log; nothing stops."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.java = JavaException(AERON_EVENT, f"WARN - {message}")

    def __reduce__(self) -> tuple[object, ...]:
        return AeronEvent, (self.where,)


def for_input(text: str) -> JavaException:
    """The exception of ``Integer.parseInt`` and ``Long.parseLong``."""
    return JavaException(NUMBER_FORMAT, f'For input string: "{text}"')


def ascii_number(text: str, kind: str, at: int = 0) -> JavaException:
    """The exception of Agrona's ``AsciiEncoding`` for a text that is no number. ``kind`` is ``int`` or ``long``, ``at``
    the index at which the text begins."""
    if not text:
        return JavaException(ASCII_NUMBER_FORMAT, f"empty string: index={at} length=0")
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal()
    message = f"{kind} overflow parsing: {text}" if is_number else f"error parsing {kind}: {text}"
    return JavaException(ASCII_NUMBER_FORMAT, message)
