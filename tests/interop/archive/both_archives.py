"""One folder, two archives: everlog's side of what tests do with recordings that it and the real archive write in
turn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import everlog
from everlog.aeron.archive import Archive, Recorder
from everlog.core.report import Fault
from tests.interop.archive.java_archive import CHECKSUM_CLASSES, Descriptor, JavaArchive, Messages, archive_tool

TERM = 64 << 10
SEGMENT = 128 << 10
CHANNEL = "aeron:ipc?term-length=64k"
KILOBYTE = (992,)
"""With its header, a frame of 1 KiB: 128 of them are a segment."""

REPLAYED = ["end_position", "length", "crc32", "reserved_value", "flags", "term_id", "term_offset"]
Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A recording to be made: ``stream_options`` are what ``start_recording`` takes besides channel and stream."""

    channel: str = CHANNEL
    stream_id: int = 10
    messages: Messages | None = None
    stream_options: tuple[tuple[str, Any], ...] = ()


def begin(archive: Archive, shape: Shape) -> Recorder:
    """A new recording."""
    return archive.start_recording(shape.channel, shape.stream_id, **dict(shape.stream_options))


def write(recorder: Recorder, messages: Messages, way: str = "many") -> int:
    """Record messages in one of the ways there are; the position behind the last."""
    pairs = list(messages)
    if way == "many":
        return recorder.append_many([payload for payload, _ in pairs], [reserved for _, reserved in pairs])
    for payload, reserved in pairs:
        (recorder.append if way == "one" else recorder.offer)(payload, reserved)
    return recorder.flush()


CUT_OFF = "incomplete-message"
"""A message of several fragments the last of which a kill took: the first ones stay, and no reader gives them."""


def ours(folder: Path, recording_id: int, level: str = "record", *, was_killed: bool = False) -> list[Row]:
    """All that everlog reads of a recording, without a fault; but for messages that were cut off, if an archive was
    killed."""
    faults: list[Fault] = []
    found: list[Row] = []
    with everlog.open_store(folder) as store:
        for batch in store.scan(str(recording_id), columns=REPLAYED, level=level, on_fault=faults.append):
            found += batch.rows()
    assert [fault for fault in faults if not (was_killed and fault.code == CUT_OFF)] == []
    return found


def theirs(archive: JavaArchive, recording_id: int, *, fragments: bool = False) -> list[Row]:
    """The same, as the real archive replays it; nothing of an empty recording, which it does not replay."""
    positions = archive.positions(recording_id)
    if positions.start == positions.maximum:
        return []
    replay = archive.replay(recording_id, fragments=fragments)
    return [
        (m.end_position, m.length, m.crc32, m.reserved_value, m.flags, m.term_id, m.term_offset)
        for m in replay.messages
    ]


def contents(rows: Iterable[Row]) -> list[Row]:
    """Length, CRC32 and reserved value of each, as ``Messages.rows``."""
    return [row[1:4] for row in rows]


def described(archive: Archive | Path) -> list[Descriptor]:
    """What everlog lists, as the real archive does."""
    if isinstance(archive, Path):
        with everlog.open_store(archive) as store:
            found = [(int(stream.name), dict(stream.details)) for stream in store.streams()]
    else:
        found = [(recording.recording_id, recording.details) for recording in archive.recordings()]
    names = [field.name for field in fields(Descriptor)]
    result = []
    for recording_id, details in found:
        details["recording_id"] = recording_id
        for name in ("stop_position", "stop_timestamp"):
            details[name] = -1 if details[name] is None else details[name]
        result.append(Descriptor(**{name: details[name] for name in names}))
    return result


def segments(folder: Path) -> list[str]:
    """Names of segment files."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".rec"))


def copied(folder: Path, name: str) -> Path:
    """A copy beside it, holes and all."""
    target = folder.with_name(name)
    shutil.copytree(folder, target)
    return target


def verified(jar: Path, folder: Path, checksum: str | None, *, known: tuple[str, ...] = ()) -> None:
    """Both find nothing: ArchiveTool's ``verify`` of all, with checksums where there are some, and ``everlog verify``,
    but for the codes that are ``known``."""
    said = archive_tool(jar, folder, "verify", "-a", *checksum_option(checksum))
    with everlog.open_store(folder) as store:
        ids = [stream.name for stream in store.streams()]
        report = store.verify()
    lines = [line for line in said.stdout.splitlines() if not line.endswith("skipping: DELETED")]
    assert lines == [f"(recordingId={name}) OK" for name in ids]
    assert (said.exit_code, said.stderr) == (0, "")
    assert [fault for fault in report.faults if fault.code not in known] == []


def checksum_option(checksum: str | None) -> list[str]:
    """For ArchiveTool."""
    return [] if checksum is None else ["-checksum", CHECKSUM_CLASSES[checksum]]
