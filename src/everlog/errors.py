"""The exception tree. Each error says where it happened, what was found, what was expected, and what to do.

Every error that everlog raises on purpose is an :class:`EverlogError`. Its fields are for programs, its text is one
sentence for people. The command line exits with ``exit_code``: 1 for faults in the data, 2 for wrong usage or a path
that is not a store.
"""

from __future__ import annotations

from typing import ClassVar, Self

MAX_TEXT = 4000
"""Characters of an error's text. The middle of a longer text is left out; the fields keep all of it."""


class EverlogError(Exception):
    """Base of all errors.

    ``where`` is a file or an option, ``offset`` a byte offset in it, ``hint`` what to do; all but ``where`` may be
    ``None``. ``message`` is the sentence to show, without the hint; by default it is made of the other fields.
    """

    exit_code: ClassVar[int] = 2
    appended: int = 0
    """How many messages, counted from the first, a failed append of several has stored."""

    def __init__(
        self,
        where: str,
        *,
        offset: int | None = None,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        message: str | None = None,
    ) -> None:
        self.where = where
        self.offset = offset
        self.found = found
        self.expected = expected
        self.hint = hint
        self.message = message
        text = self._sentence() if message is None else message
        super().__init__(_shown(text + (f" ({hint})" if hint else "")))

    def _sentence(self) -> str:
        """The text when no ``message`` is given."""
        place = self.where if self.offset is None else f"{self.where} at offset {self.offset}"
        expected = None if self.expected is None else f"expected {self.expected}"
        parts = [part for part in (self.found, expected) if part is not None]
        return place + (": " + "; ".join(parts) if parts else "")

    def with_hint(self, hint: str | None) -> Self:
        """A copy with another hint."""
        return self._copied(self.where, self.message, hint)

    def inside(self, path: str, hint: str | None = None) -> Self:
        """A copy whose place and text also name the store or folder at ``path``, with ``hint`` instead of its own if
        one is given."""
        where, message = self.where, self.message
        if not where.startswith(path):
            where = f"{path}: {where}" if isinstance(self, UsageError) else f"{path}/{where}"
        if message is not None and path not in message:
            message = f"{path}: {message}"
        return self._copied(where, message, hint or self.hint)

    def _copied(self, where: str, message: str | None, hint: str | None) -> Self:
        copy = type(self)(
            where, offset=self.offset, found=self.found, expected=self.expected, hint=hint, message=message
        )
        copy.appended = self.appended
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields: the default would call cls(text) and lose them between Spark processes.
        names = ("offset", "found", "expected", "hint", "message")
        return _rebuild, (type(self), self.where, {name: getattr(self, name) for name in names})


def _shown(text: str) -> str:
    """Shorten a text to ``MAX_TEXT`` and escape lone surrogates, which texts from outside may hold and most streams
    refuse."""
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}... ({len(text)} characters) ...{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _rebuild(cls: type[EverlogError], where: str, state: dict[str, object]) -> EverlogError:
    return cls(where, **state)  # type: ignore[arg-type]


class NotAStore(EverlogError):
    """The path is not a store of a known family."""


class StoreUnavailable(EverlogError):
    """A store can't be used now: a missing file, no permission, an I/O error, or another process owns it."""


class WriteFailed(StoreUnavailable):
    """A file could not be written, synced or deleted: disk full, an I/O error, no permission. Nothing that was to be
    written counts as stored, except the first ``appended`` messages of several."""


class StoreExists(EverlogError):
    """A new store was to be created where something exists already."""


class UnsupportedVersion(EverlogError):
    """The store's family is known, its version is not."""


class UsageError(EverlogError):
    """A wrong option, argument, address, column or stream name."""

    def _sentence(self) -> str:
        if self.expected is None:
            return self.where if self.found is None else f"{self.where}: {self.found}"
        return f"{self.where} must be {self.expected}" + ("" if self.found is None else f", not {self.found}")


class WrongType(UsageError, TypeError):
    """An argument has the wrong type."""


class Closed(UsageError):
    """A store, writer, reader or client was used after it was closed."""

    def _sentence(self) -> str:
        return f"{self.where} is closed"


class InvalidSchema(UsageError):
    """A schema breaks its standard or exceeds a named limit."""

    _sentence = EverlogError._sentence


class UnknownStream(UsageError):
    """The store has no stream of that name."""

    _sentence = EverlogError._sentence


class UnknownSubscriber(UsageError):
    """The journal has no subscriber of that name."""

    _sentence = EverlogError._sentence


class SubscriberExists(UsageError):
    """A subscriber of that name exists already, or a process has this session's subscriber open."""

    _sentence = EverlogError._sentence


class MissingDependency(EverlogError):
    """An optional package is missing; the hint names the extra that installs it."""


class KeyRefused(EverlogError):
    """The encryption key is missing or does not fit. The key is never part of the message."""


class DataLost(EverlogError):
    """Records that a live query had not read yet are gone: purged, truncated, or deleted with their stream or store."""


class CorruptData(EverlogError):
    """Bytes in the store break the format."""

    exit_code = 1


class LimitExceeded(CorruptData):
    """A length or count from outside exceeds a named limit."""


class UnknownMessage(CorruptData):
    """The schema does not describe this payload: it belongs to another schema, or its template is not in this one."""


class FileChanged(CorruptData):
    """Another process cut or replaced a file while it was read."""
