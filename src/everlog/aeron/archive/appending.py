"""Appends batches to a recording of an Aeron archive, each message once. A commit owns the archive, so that nobody else
appends at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.appending.family import PAYLOAD, RESERVED_VALUE, Appending, WriteOption
from everlog.core.appending.messages import Messages
from everlog.core.appending.target import Place, Target, Uncertain
from everlog.core.appending.target_name import CHANNEL, RECORDING, STREAM_ID, TargetName
from everlog.core.files.durability import Durability
from everlog.core.files.writable import LocalWritableStorage, WritableStorage, make_folder
from everlog.core.option_kinds import BYTES, NUMBER, SECONDS, TEXT, choice
from everlog.core.record import Record
from everlog.core.report import Fault, Severity
from everlog.core.store import raise_fault, records_of
from everlog.errors import StoreUnavailable, UsageError

DEFAULT_CHANNEL, DEFAULT_STREAM_ID = "aeron:ipc", 1001
UNFINISHED = "incomplete-message"
_COLUMNS = ["address", "timestamp_ns", "payload", "reserved_value", "end_position"]
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """The recording to append to: that with ``recording_id``, else the last valid one of ``channel`` and ``stream_id``,
    else a new one with ``stream_options`` (``term_length``, ``mtu_length``, ``session_id``). ``wait_s``: how long to
    wait for another owner of the archive."""

    channel: str = DEFAULT_CHANNEL
    stream_id: int = DEFAULT_STREAM_ID
    recording_id: int | None = None
    stream_options: dict[str, int] = field(default_factory=dict)
    wait_s: float = 15.0
    archive: ArchiveOptions = field(default_factory=lambda: ArchiveOptions(durability="synced"))


class RecordingTarget(Target):
    """Appends to one recording, and stops it at the end. Raises as :meth:`Archive.open`, :class:`StoreUnavailable` if
    another process owns the archive for longer than ``wait_s``."""

    def __init__(self, storage: WritableStorage, options: RecordingOptions, *, create: bool = False) -> None:
        self._storage = storage
        self._options = options
        self._archive = _open(storage, options, create)
        self._recorder: Recorder | None = None

    # Existing messages

    def check(self, longest: int) -> None:
        """See :class:`Target`. Creates the recording if none exists."""
        limit = self._open_recorder().max_message_length
        if longest > limit:
            hint = "longer terms (termLength of a new recording) take longer messages"
            raise UsageError(
                "payload", found=f"{longest} bytes", expected=f"at most {limit} in this recording", hint=hint
            )

    def has(self, place: Place) -> bool:
        recording = self._find()
        return recording is not None and recording.recording_id == place["recording"]

    def count_found(self, place: Place, messages: Messages, time_ns: int) -> int:
        """See :class:`Target`. Cuts off an unfinished or torn message after the found ones, unless another writer has
        recorded more."""
        recording_id, position = place["recording"], place["position"]
        self._stop(recording_id)
        recording = self._archive.recording(recording_id)
        stop = recording.stop_position
        if position < recording.start_position:
            where, found = f"recording {recording_id}", f"a start at {recording.start_position}"
            raise Uncertain(where, found=found, expected=f"what was appended from {position} on: it was purged")
        if stop is None or stop <= position:
            return 0
        count, end, is_broken, has_others = 0, position, False, False
        faults: list[Fault] = []
        for number, record in enumerate(self._records(recording_id, position, faults)):
            if number >= len(messages) or not _is_torn_or_same(record, messages, number):
                has_others = True
                break
            is_broken = is_broken or not _is_same(record, messages, number)
            if not is_broken:
                count, end = number + 1, record.fields["end_position"]
        for fault in faults:
            if fault.code != UNFINISHED and fault.severity is Severity.FAULT:
                raise_fault(fault)
        is_broken = is_broken or any(fault.code == UNFINISHED for fault in faults)
        if is_broken and not has_others:
            self._archive.truncate_recording(recording_id, end)
        if count and self._options.archive.file_sync_level:
            self._sync(recording, position, end)
        return count

    def _records(self, recording_id: int, position: int, faults: list[Fault]) -> Iterator[Record]:
        with self._archive.replay(recording_id, position) as replay:
            yield from records_of(str(recording_id), _COLUMNS, replay.batches(_COLUMNS, on_fault=faults.append))

    def _sync(self, recording: Recording, start: int, end: int) -> None:
        segments = segment_map(recording)
        for base in range(segments.base(start), end, recording.segment_file_length):
            with self._storage.open_writable(segments.name(base)) as segment:
                segment.sync()
        self._storage.sync_folder()

    # Appending

    def append(self, messages: Messages, time_ns: int, note: Callable[[Place], None]) -> int:
        recorder = self._open_recorder()
        note({"recording": recorder.recording_id, "position": recorder.recorded_position})
        recorder.append_many(messages.payloads, [number or 0 for number in messages.numbers])
        return len(messages)

    def _open_recorder(self) -> Recorder:
        if self._recorder is None:
            recording = self._find()
            if recording is None:
                options, stream = self._options, self._options.stream_options
                self._recorder = self._archive.start_recording(
                    options.channel,
                    options.stream_id,
                    session_id=stream.get("session_id"),
                    initial_term_id=stream.get("initial_term_id"),
                    term_length=stream.get("term_length"),
                    mtu_length=stream.get("mtu_length"),
                    position=stream.get("position"),
                )
            else:
                # Keep the recording's session: its readers see one stream, however many batches made it.
                number, session_id = recording.recording_id, recording.session_id
                self._recorder = self._archive.extend_recording(number, session_id=session_id)
        return self._recorder

    def _find(self) -> Recording | None:
        options = self._options
        if options.recording_id is not None:
            return self._archive.recording(options.recording_id)
        found = self._archive.recordings(stream_id=options.stream_id)
        same = [r for r in found if r.entry is not None and r.entry.texts["original_channel"] == options.channel]
        return same[-1] if same else None

    def _stop(self, recording_id: int) -> None:
        if self._recorder is not None and self._recorder.recording_id == recording_id:
            self._recorder.stop()
            self._recorder = None

    def close(self) -> None:
        """Stop the recording and release the archive."""
        self._archive.close()


def _open(storage: WritableStorage, options: RecordingOptions, create: bool) -> Archive:
    """Open the archive. Waits for its owner: one that was killed keeps the folder until its timeout has passed."""
    deadline = time.monotonic() + options.wait_s
    while True:
        try:
            if create:
                return Archive.create(storage, options.archive, exist_ok=True)
            return Archive.open(storage, options.archive)
        except StoreUnavailable as error:
            if type(error) is not StoreUnavailable or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_S)


def _is_same(record: Record, messages: Messages, number: int) -> bool:
    reserved: Any = record.fields["reserved_value"]
    return record.payload == messages.payloads[number] and reserved == (messages.numbers[number] or 0)


def _is_torn_or_same(record: Record, messages: Messages, number: int) -> bool:
    """Whether a record is the message, or what a power cut leaves of it, with zeros instead of some sectors."""
    if _is_same(record, messages, number):
        return True
    found, own = record.payload, messages.payloads[number]
    return len(found) == len(own) and all(f in (o, 0) for f, o in zip(found, own, strict=True))


class RecordingAppending(Appending):
    """Spark's write options: the recording, the parameters of a new one, and those of the archive."""

    columns = (PAYLOAD, RESERVED_VALUE)
    options = (
        WriteOption("recording", "recording_id", NUMBER),
        WriteOption("channel", "channel", TEXT),
        WriteOption("streamId", "stream_id", NUMBER),
        WriteOption("termLength", "term_length", BYTES),
        WriteOption("mtuLength", "mtu_length", BYTES),
        WriteOption("segmentLength", "segment_length", BYTES),
        WriteOption("checksum", "checksum", choice("none", "crc32", "crc32c")),
        WriteOption("livenessTimeout", "liveness_timeout_s", SECONDS),
        WriteOption("ownerTimeout", "wait_s", SECONDS),
    )

    def check(self, given: Mapping[str, Any]) -> None:
        """Raises :class:`UsageError` if the recording is given both by its id and by its stream."""
        if "recording_id" in given and not {"channel", "stream_id", "term_length", "mtu_length"}.isdisjoint(given):
            others = "channel, streamId, termLength and mtuLength"
            raise UsageError(
                "option recording",
                found=str(given["recording_id"]),
                expected=f"none beside {others}",
                message=f"option recording excludes {others}: an existing recording has its own",
            )

    def target_name(self, store: str, given: Mapping[str, Any]) -> TargetName:
        """See :class:`Appending`. The notes of earlier versions omit defaults, so each spelling of the same target is
        one of its names."""
        if "recording_id" in given:
            return TargetName(store, f"{store}?{RECORDING}={given['recording_id']}")
        spelled = [
            _spellings(CHANNEL, given.get("channel", DEFAULT_CHANNEL), DEFAULT_CHANNEL),
            _spellings(STREAM_ID, given.get("stream_id", DEFAULT_STREAM_ID), DEFAULT_STREAM_ID),
        ]
        first, *others = ("?".join(filter(None, (store, "&".join(filter(None, words))))) for words in product(*spelled))
        return TargetName(store, first, frozenset(others))

    def open_target(self, path: str, given: Mapping[str, Any], *, create: bool, durability: Durability) -> Target:
        if create:
            make_folder(path)

        def chosen(*names: str) -> dict[str, Any]:
            return {name: given[name] for name in names if name in given}

        archive = ArchiveOptions(durability=durability, **chosen("segment_length", "checksum", "liveness_timeout_s"))
        options = RecordingOptions(
            archive=archive,
            stream_options=chosen("term_length", "mtu_length"),
            **chosen("recording_id", "channel", "stream_id", "wait_s"),
        )
        return RecordingTarget(LocalWritableStorage(path), options, create=create)


def _spellings(name: str, value: Any, default: Any) -> list[str]:
    return [f"{name}={value}", ""] if value == default else [f"{name}={value}"]
