"""One exception tree and one message shape: where, what was found, what was expected, what to do.

Every error that everlog raises on purpose is an :class:`EverlogError`. Its fields stay readable for programs; its
text is one line for people. ``exit_code`` is what the command line ends with: 1 for faults in the data, 2 for wrong
usage or a path that is no store.
"""

from __future__ import annotations

from typing import ClassVar

MAX_TEXT = 4000
"""Characters of an error's text; what is between its beginning and its end is left out. The fields have all of it."""


class EverlogError(Exception):
    """Base of all errors. ``where`` is a file or an option, ``offset`` a byte offset in it; all but ``where`` may
    be ``None``.
    """

    exit_code: ClassVar[int] = 2
    appended: int = 0
    """Of several messages that were to be appended with one call: so many at the front are stored."""

    def __init__(
        self,
        where: str,
        *,
        offset: int | None = None,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.where = where
        self.offset = offset
        self.found = found
        self.expected = expected
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        place = self.where if self.offset is None else f"{self.where} at offset {self.offset}"
        parts = []
        if self.found is not None:
            parts.append(f"found {self.found}")
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        text = place + (": " + ", ".join(parts) if parts else "")
        return _shown(text + (f" ({self.hint})" if self.hint else ""))

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields: the default would call cls(text) and lose them between Spark processes.
        state = {"offset": self.offset, "found": self.found, "expected": self.expected, "hint": self.hint}
        return _rebuild, (type(self), self.where, state)


def _shown(text: str) -> str:
    """Not longer than a screen, and such that every stream takes it: texts from outside have lone surrogates, too."""
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}... ({len(text)} characters) ...{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _rebuild(cls: type[EverlogError], where: str, state: dict[str, object]) -> EverlogError:
    return cls(where, **state)  # type: ignore[arg-type]


class NotAStore(EverlogError):
    """The path is no store of a known family."""


class StoreUnavailable(EverlogError):
    """The operating system refused: missing file, no permission, an I/O error."""


class WriteFailed(StoreUnavailable):
    """A file could not be written, synced or deleted: disk full, an I/O error, no permission. Nothing of what was to be
    written counts as stored, but for the first ``appended`` messages of several.
    """


class StoreExists(EverlogError):
    """There is something already where a new store was to be made."""


class UnsupportedVersion(EverlogError):
    """The store is of a family that everlog knows, in a version it doesn't."""


class UsageError(EverlogError):
    """A wrong option, address, column or stream name."""


class InvalidSchema(UsageError):
    """A schema is not what its standard says, or it is over a named limit."""


class UnknownStream(UsageError):
    """The store has no stream of that name."""


class UnknownSubscriber(UsageError):
    """The journal has no subscriber of that name."""


class SubscriberExists(UsageError):
    """There is a subscriber of that name already, or a session's subscriber that a process has open."""


class MissingDependency(EverlogError):
    """An optional package is needed; the hint names the extra that brings it."""


class KeyRefused(EverlogError):
    """No encryption key, or one that does not fit. The key is never part of the message."""


class DataLost(EverlogError):
    """Records that a live query had not read yet are gone: purged, truncated, or deleted with their stream or store."""


class CorruptData(EverlogError):
    """Bytes in the store are not what the format says."""

    exit_code = 1


class LimitExceeded(CorruptData):
    """A length or count from outside is over a named limit."""


class UnknownMessage(CorruptData):
    """A payload that the schema does not describe: of another schema, or of a template that it lacks."""


class FileChanged(CorruptData):
    """A file was cut or replaced by another process while it was read."""
