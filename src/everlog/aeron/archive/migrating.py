"""Moves records into one archive, with a recording for each stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.family import ARCHIVE
from everlog.aeron.archive.opening import create
from everlog.aeron.archive.recording.options import OptionKeywords
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.frames.constants import MAX_SEGMENT_LENGTH, MAX_TERM_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.frames.framing_inputs import MAX_MESSAGE_LENGTH
from everlog.core.family.migrating import KEEP, NONE, TIME, Assigned, Found, Migrating, Row, Target, TargetOptions
from everlog.core.files.storage import LocalStorage
from everlog.errors import StoreUnavailable, UsageError

MAX_IDENTITY = 200
OWNER_WAIT_S = 30.0
"""A killed owner keeps its archive for 10 s."""
_POLL_S = 0.2


class RecordingTarget:
    """A recording in an archive that this process owns. The token in its channel identifies it in later runs. A crash
    in ``append`` leaves the first of the messages, and an active recording, which the next opening for writing stops.
    """

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
        """Raise :class:`UsageError` for a record that is too long for this recording; ``where`` names the record."""
        length, limit = len(row.payload), self._recorder.max_message_length
        if length > limit:
            term = max(MIN_TERM_LENGTH, 1 << (8 * length - 1).bit_length())
            is_possible = length <= MAX_MESSAGE_LENGTH
            hint = f"move into a new target with --term-length {term}" if is_possible else "a journal takes it"
            message = f"{where} has {length} bytes; a message of this recording has at most {limit}"
            raise UsageError(where, found=f"{length} bytes", expected=f"at most {limit}", message=message, hint=hint)

    def end(self) -> int:
        """The recorded position."""
        return self._recorder.recorded_position

    def append(self, rows: Sequence[Row]) -> None:
        """Append records; they are on disk on return. A crash leaves the first of them."""
        values = [self._value(row) for row in rows]
        self._recorder.append_many([row.payload for row in rows], values)

    def _value(self, row: Row) -> int:
        value = {KEEP: row.reserved_value, TIME: row.timestamp_ns, NONE: 0}[self._reserved]
        return value or 0

    def after(self, end: int) -> Iterator[Found]:
        """Yield the records from an address on."""
        names = ("address", "length", "crc32", "end_position")
        with ArchiveStore.open(LocalStorage(self._archive.path), {}) as store:
            stream = str(self._recorder.recording_id)
            for batch in store.scan(stream, columns=list(names), start=end):
                for row in zip(*(batch.to_list(name) for name in names), strict=True):
                    yield Found(*row)

    def close(self) -> None:
        """Stop the recording."""
        self._recorder.stop()


class RecordingMigrating(Migrating):
    """One archive, owned for as long as records are moved."""

    is_shared = True
    options = frozenset({"segment_bytes", "term_length", "reserved_value"})

    def check(self, options: TargetOptions) -> None:
        for name, value, most in (
            ("segment bytes", options.segment_bytes, MAX_SEGMENT_LENGTH),
            ("term length", options.term_length, MAX_TERM_LENGTH),
        ):
            if value is not None and not (is_power_of_two(value) and MIN_TERM_LENGTH <= value <= most):
                expected = f"a power of two from {MIN_TERM_LENGTH} to {most}"
                raise UsageError(name, found=str(value), expected=expected)

    def place(self, folder: str, assigned: Assigned) -> str:
        return folder

    @contextmanager
    def opened(self, folder: str, options: TargetOptions) -> Iterator[Callable[[Assigned], Target]]:
        """See :class:`~everlog.core.family.migrating.Migrating`. Waits for an archive whose owner was killed."""
        with _own(folder, options.segment_bytes) as archive:
            yield partial(_open, archive, options)


def _open(archive: Archive, options: TargetOptions, assigned: Assigned) -> Target:
    default = KEEP if assigned.family == ARCHIVE.name else TIME
    return RecordingTarget(archive, assigned, options, options.reserved_value or default)


def _own(folder: str, segment_length: int | None) -> Archive:
    deadline = time.monotonic() + OWNER_WAIT_S
    given: OptionKeywords = {"durability": "synced"}
    if segment_length is not None:
        given["segment_length"] = segment_length
    while True:
        try:
            return create(folder, exist_ok=True, **given)
        except StoreUnavailable as error:
            # Wait only for an owner: a folder that can't be written won't become writable.
            if type(error) is not StoreUnavailable or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
