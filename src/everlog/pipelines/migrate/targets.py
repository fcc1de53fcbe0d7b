"""Where records are moved to: a journal for each stream, or a recording for each in one archive. A target appends and
syncs, and reads its own end back."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from everlog.aeron.frames.constants import MAX_SEGMENT_LENGTH, MAX_TERM_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.frames.framing_inputs import MAX_MESSAGE_LENGTH
from everlog.core.files.writable import make_folder
from everlog.errors import StoreUnavailable, UsageError
from everlog.jlog.options import Compression
from everlog.jlog.writing.creation import MAX_SEGMENT_BYTES
from everlog.pipelines.migrate.notes import ARCHIVE, JLOG, Assigned
from everlog.pipelines.migrate.source import journal_end
from everlog.stores import open_store

if TYPE_CHECKING:
    from everlog.aeron.archive import Archive, Recorder

KINDS = (JLOG, ARCHIVE)
KEEP, TIME, NONE = "keep", "time", "none"
DEFAULT_TERM_LENGTH = 64 << 20
FIRST_STREAM_ID = 1001
MAX_IDENTITY = 200
JOURNAL_TIME_END_NS = (1 << 32) * 10**9
"""A journal has 32 bits for the seconds."""
SECONDS_FOR_THE_ARCHIVE = 30.0
"""An archive whose owner was killed is its own for 10 s more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """``segment_bytes``: of new journals' or recordings' segments. ``compression`` of new journals: ``None`` or
    ``lz4``. ``reserved_value`` of a recording's frames: ``keep`` the one that they had in another archive, the
    ``time`` in nanoseconds since 1970, or ``none``; ``None`` stands for ``keep`` where there is one, else ``time``.
    ``term_length`` of new recordings: an eighth of it is the longest message."""

    segment_bytes: int | None = None
    compression: Compression | None = None
    reserved_value: str | None = None
    term_length: int = DEFAULT_TERM_LENGTH
    channel: str = "aeron:ipc"
    first_stream_id: int = FIRST_STREAM_ID

    def __post_init__(self) -> None:
        if self.reserved_value not in (None, KEEP, TIME, NONE):
            raise UsageError("reserved value", found=repr(self.reserved_value), expected="keep, time or none")

    def check(self, kind: str) -> None:
        """Raises :class:`UsageError` for lengths that a target of this kind does not have."""
        segment, term = self.segment_bytes, self.term_length
        if kind == JLOG:
            if segment is not None and not 1 <= segment <= MAX_SEGMENT_BYTES:
                raise UsageError("segment bytes", found=str(segment), expected=f"1 to {MAX_SEGMENT_BYTES}")
            return
        for name, value, most in (
            ("segment bytes", segment, MAX_SEGMENT_LENGTH),
            ("term length", term, MAX_TERM_LENGTH),
        ):
            if value is not None and not (is_power_of_two(value) and MIN_TERM_LENGTH <= value <= most):
                expected = f"a power of two from {MIN_TERM_LENGTH} to {most}"
                raise UsageError(name, found=str(value), expected=expected)


class Row(NamedTuple):
    """A record on its way."""

    payload: bytes
    timestamp_ns: int | None
    reserved_value: int | None


class Found(NamedTuple):
    """A record in the target, and where the one behind it begins."""

    address: str
    length: int
    crc32: int
    end: int


class Target(Protocol):
    """One stream's place."""

    @property
    def place(self) -> str:
        """For people: the journal's folder, or the archive's and the recording's id."""

    def check(self, row: Row, where: str) -> None:
        """Raises :class:`UsageError` for a record that it can't hold. ``where`` says which that is."""

    def end(self) -> int:
        """Where it ends: the next record is there or behind."""

    def append(self, rows: Sequence[Row]) -> None:
        """They are on disk on return."""

    def after(self, end: int) -> Iterator[Found]:
        """The records from there on."""

    def close(self) -> None:
        """Give it back."""


class JournalTarget:
    """A journal, which is made if need be. A crash in ``append`` leaves the first messages of it."""

    def __init__(self, folder: str, options: TargetOptions) -> None:
        from everlog import jlog
        from everlog.jlog.writing.intent_append import IntentWriter

        make_folder(os.path.dirname(folder) or ".")
        stream_options: dict[str, Any] = (
            {} if options.segment_bytes is None else {"segment_bytes": options.segment_bytes}
        )
        jlog.create(folder, compression=options.compression, exist_ok=True, **stream_options)
        self.place = folder
        self._writer = IntentWriter(folder, durability="synced")

    def check(self, row: Row, where: str) -> None:
        time_ns = row.timestamp_ns
        if time_ns is not None and not 0 <= time_ns < JOURNAL_TIME_END_NS:
            raise UsageError(
                where,
                found=f"a time of {time_ns} ns",
                expected=f"0 to {JOURNAL_TIME_END_NS - 1} (1970 to 2106), as a journal can keep",
                hint="an archive keeps any; without timestampFrom, the time is when the record was moved",
            )

    def end(self) -> int:
        with open_store(self.place, family=JLOG) as store:
            return journal_end(store)

    def append(self, rows: Sequence[Row]) -> None:
        now = time.time_ns()
        times = [now if row.timestamp_ns is None else row.timestamp_ns for row in rows]
        self._writer.append_many([row.payload for row in rows], times)

    def after(self, end: int) -> Iterator[Found]:
        self._writer.next_address()  # cuts away what a killed run left of a message: to a reader it is damage
        with open_store(self.place, family=JLOG) as store:
            stream = store.streams()[0].name
            for batch in store.scan(stream, columns=["address", "length", "crc32"], start=end):
                names = ("address", "length", "crc32")
                for address, length, crc32 in zip(*(batch.to_list(name) for name in names), strict=True):
                    yield Found(address, length, crc32, store.parse_address(address) + 1)

    def close(self) -> None:
        self._writer.close()


class RecordingTarget:
    """A recording in an archive that this process owns; its channel has the token that finds it again. A crash in
    ``append`` leaves the first messages of it, and the recording active until the archive is opened again."""

    def __init__(self, archive: Archive, assigned: Assigned, options: TargetOptions, reserved: str) -> None:
        self._archive = archive
        self._reserved = reserved
        stream_id = options.first_stream_id + assigned.number
        mark = f"alias=everlog-{assigned.token}"
        separator = "|" if "?" in options.channel else "?"
        known = archive.find_last_matching_recording(mark, stream_id)
        self._recorder: Recorder
        if known is None:
            self._recorder = archive.start_recording(
                f"{options.channel}{separator}{mark}",
                stream_id,
                term_length=options.term_length,
                source_identity=f"{assigned.family}:{quote(assigned.stream, safe='/:@')}"[:MAX_IDENTITY],
            )
        else:
            self._recorder = archive.extend_recording(known.recording_id)
        self.place = f"{archive.path}:{self._recorder.recording_id}"

    def check(self, row: Row, where: str) -> None:
        length, limit = len(row.payload), self._recorder.max_message_length
        if length > limit:
            term = max(MIN_TERM_LENGTH, 1 << (8 * length - 1).bit_length())
            is_possible = length <= MAX_MESSAGE_LENGTH
            hint = f"move into a new target with --term-length {term}" if is_possible else "a journal takes it"
            raise UsageError(where, found=f"{length} bytes", expected=f"at most {limit}", hint=hint)

    def end(self) -> int:
        return self._recorder.recorded_position

    def append(self, rows: Sequence[Row]) -> None:
        values = [self._value(row) for row in rows]
        self._recorder.append_many([row.payload for row in rows], values)

    def _value(self, row: Row) -> int:
        value = {KEEP: row.reserved_value, TIME: row.timestamp_ns, NONE: 0}[self._reserved]
        return value or 0

    def after(self, end: int) -> Iterator[Found]:
        names = ("address", "length", "crc32", "end_position")
        with open_store(self._archive.path, family=ARCHIVE) as store:
            stream = str(self._recorder.recording_id)
            for batch in store.scan(stream, columns=list(names), start=end):
                for row in zip(*(batch.to_list(name) for name in names), strict=True):
                    yield Found(*row)

    def close(self) -> None:
        self._recorder.stop()


@contextlib.contextmanager
def archive_for(folder: str, options: TargetOptions) -> Iterator[Archive]:
    """The archive, made if need be, owned for as long as the block lasts. One whose owner was killed is waited for."""
    from everlog.aeron import archive

    stream_options: dict[str, Any] = {"durability": "synced"}
    segment = options.segment_bytes
    if segment is not None:
        stream_options["segment_length"] = segment
    deadline = time.monotonic() + SECONDS_FOR_THE_ARCHIVE
    while True:
        try:
            opened = archive.create(folder, exist_ok=True, **stream_options)
            break
        except StoreUnavailable as error:
            # What can't be written stays so: no use in waiting.
            if type(error) is not StoreUnavailable or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    with opened:
        yield opened
