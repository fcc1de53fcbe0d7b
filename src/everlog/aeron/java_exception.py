"""Exceptions as Aeron's Java driver names them. Programs and tools search its error log and its answers for texts,
so ours writes the same. Source: Agrona, DistinctErrorLog; Aeron, AeronException, AeronEvent."""

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
    """An exception's class and message; as text, what Java's ``toString`` gives."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class AeronEvent(EverlogError):
    """Something that stops nothing, as a warning in the driver's error log."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.java = JavaException(AERON_EVENT, f"WARN - {message}")

    def __reduce__(self) -> tuple[object, ...]:
        return AeronEvent, (self.where,)


def for_input(text: str) -> JavaException:
    """What ``Integer.parseInt`` and ``Long.parseLong`` throw."""
    return JavaException(NUMBER_FORMAT, f'For input string: "{text}"')


def ascii_number(text: str, kind: str, at: int = 0) -> JavaException:
    """What Agrona's ``AsciiEncoding`` throws for a text that is no number; ``kind``: ``int`` or ``long``; ``at``: where
    the text begins."""
    if not text:
        return JavaException(ASCII_NUMBER_FORMAT, f"empty string: index={at} length=0")
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal()
    said = f"{kind} overflow parsing: {text}" if is_number else f"error parsing {kind}: {text}"
    return JavaException(ASCII_NUMBER_FORMAT, said)
