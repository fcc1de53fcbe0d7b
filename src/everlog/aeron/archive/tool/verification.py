"""``verify --fix``: the changes that the original's ``verify`` makes. Source: ArchiveTool.verifyRecording,
Catalog.computeStopPosition.

It writes three things, but only if the frames justify them:

* the stop position, with the current time, if the frames end elsewhere. The original uses the last file's first gap as
  the end; here a last file of zeros is skipped, and a gap followed by frames is damage, not an end;
* ``INVALID`` if frames of the checked files are damaged, or the last file ends before the stop position; ``VALID`` if
  they are intact;
* zeros over a torn last frame, if requested; otherwise it counts as whole. A torn frame has an empty page in it, as the
  original requires, or a wrong checksum, and only zeros after it: frames there mean damage, which stays. A frame that
  merely ends in zeros counts as whole.

A recording with an interrupted truncation is left alone, as in a repair: the next writer finishes it.

An entry's checksum is cleared before the fields change and written again after them, so that a crash leaves an entry
with its right checksum or none. The original leaves the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from everlog.aeron.archive.folder.archive import FAMILY, ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording, recording_of
from everlog.aeron.archive.folder.scan import Scan
from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS, to_int32
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.tool.folder import open_folder
from everlog.aeron.archive.tool.states import set_state
from everlog.aeron.archive.tool.steps import WriteBytes, ZeroTail, last_written
from everlog.aeron.family_options import ReadChecksum
from everlog.aeron.frames.constants import HEADER_LENGTH, NULL_POSITION, align
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.layouts import DataHeader, DescriptorHeader, RecordingDescriptor
from everlog.aeron.mark_file import Clock, now_ms
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.core.report import Fault, Severity
from everlog.kernel import columns as kernel

DAMAGE = frozenset(
    {
        "catalog-checksum",
        "frame-checksum",
        "frame-length",
        "frame-stream-id",
        "frame-term-id",
        "frame-term-offset",
        "frame-type",
        "segment-short",
    }
)
"""Faults that make a recording invalid, the ones that Aeron's ArchiveTool also detects."""

MENDED = frozenset({"stop-position", "unset-frame"})
"""Faults that disappear when the stop position is corrected."""

UNFINISHED = "nothing written: a truncation was interrupted; truncate again, or open the archive for writing"

Truncates = Callable[[Fault], bool]
"""Decides whether a torn last frame is zeroed; otherwise it counts as whole."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a recording's frames end: ``end`` follows the last intact one, ``limit`` is its last file's end. ``torn``
    is a fault of the frame at ``end``, which would end at ``torn_end``; ``is_sound``: the frames of the last file have
    no other fault."""

    end: int
    limit: int
    is_sound: bool
    torn: Fault | None = None
    torn_end: int = 0


@dataclass(slots=True)
class Verdict:
    """The changes to one recording: ``faults`` remain, ``doubts`` are doubtful frames that count as whole, ``note``
    says why nothing is written."""

    recording_id: int
    faults: list[Fault]
    doubts: list[Fault] = field(default_factory=list)
    stop_position: int | None = None
    state: str | None = None
    truncated_at: int | None = None
    note: str = ""


@dataclass(slots=True)
class Fixes:
    """The plan, and a verdict for each checked recording."""

    plan: RepairPlan
    verdicts: dict[int, Verdict] = field(default_factory=dict)


def plan_fix(
    storage: Storage,
    faults: dict[int, list[Fault]],
    *,
    truncates: Truncates,
    checksum: ReadChecksum = "auto",
    clock: Clock = now_ms,
) -> Fixes:
    """Plan what ``verify`` would write, given each recording's faults in the checked files, without notes.

    Raises as :func:`~.folder.open_folder`.
    """
    folder = open_folder(storage)
    archive = ArchiveFolder(folder.storage, checksum)
    steps: list[RepairStep] = []
    fixes = Fixes(RepairPlan(folder.storage.root, FAMILY, ()))
    for recording_id, found in faults.items():
        entry = folder.entry(recording_id)
        if entry.state == "DELETED":
            continue
        recording = recording_of(entry)
        if recording.truncation_pending:
            # The frames after the stop position are being truncated, but would still count as the recording's.
            fixes.verdicts[recording_id] = Verdict(recording_id, found, note=UNFINISHED)
            continue
        has_files = recording_id in archive.segment_index()
        tail = find_tail(archive, recording) if has_files else None
        verdict = decide(recording, found, tail, truncates)
        fixes.verdicts[recording_id] = verdict
        if verdict.truncated_at is not None:
            assert tail is not None
            assert tail.torn is not None
            steps.append(_zero_tail(folder.storage, tail.torn))
        if verdict.stop_position is not None:
            steps += _set_stop(folder.storage, entry, verdict.stop_position, clock())
        if verdict.state is not None:
            steps.append(set_state(folder.storage, entry, verdict.state))
    fixes.plan = RepairPlan(folder.storage.root, FAMILY, tuple(steps))
    return fixes


def decide(recording: Recording, faults: Iterable[Fault], tail: Tail | None, truncates: Truncates) -> Verdict:
    """Decide what to change in a recording, by its faults and its tail (``None`` if it has no files)."""
    verdict = Verdict(recording.recording_id, list(faults))
    stop = recording.stop_position
    is_cut_off = tail is not None and stop is not None and stop > tail.limit
    if tail is None and stop is None:
        verdict.stop_position = recording.start_position
    if tail is not None and tail.is_sound and not is_cut_off:
        end = tail.end
        if tail.torn is not None:
            if truncates(tail.torn):
                verdict.truncated_at = end
            else:
                end = tail.torn_end
        elif stop is None:
            # Zeros at its end may be its payload. The original does not ask either.
            verdict.doubts = [fault for fault in verdict.faults if fault.code == "torn-frame"]
        verdict.faults = [fault for fault in verdict.faults if fault.code != "torn-frame"]
        if end != stop:
            verdict.stop_position = end
            verdict.faults = [fault for fault in verdict.faults if not _is_mended(fault, end, stop)]
    is_damaged = is_cut_off or any(fault.code in DAMAGE for fault in verdict.faults)
    if is_damaged and recording.state == "VALID":
        verdict.state = "INVALID"
    elif not verdict.faults and tail is not None and recording.state == "INVALID":
        verdict.state = "VALID"
    return verdict


def _is_mended(fault: Fault, end: int, stop: int | None) -> bool:
    """Whether ending the recording at ``end`` resolves a fault: one of the stop position, or after the end."""
    if fault.code == "stop-position":
        return True
    return fault.code in MENDED and stop is not None and fault.loses.endswith(f" to {stop}")


def find_tail(archive: ArchiveFolder, recording: Recording) -> Tail:
    """Find where the frames end in the last file that has any, regardless of the stop position."""
    open_ended = replace(recording, stop_position=None)
    context = replace(archive.scan_context(open_ended), is_live=False)
    reader = SegmentReader(archive.storage, context.segments)
    start = recording.start_position
    bases = context.segments.bases(archive.segment_index()[recording.recording_id])
    first = start
    for base in sorted((base for base in bases if base >= context.segments.base(start)), reverse=True):
        first = max(base, start)
        if any(reader.read(first, HEADER_LENGTH)):
            break
    faults: list[Fault] = []
    sink = kernel.RowSink([], 1 << 62, 1 << 62)
    scan = Scan(context, reader, sink, faults.append, False, first, FOREVER)
    try:
        for _ in scan.run():
            sink.reset()
    finally:
        reader.close()
    serious = [fault for fault in faults if fault.severity is Severity.FAULT]
    torn = serious[0] if len(serious) == 1 and serious[0].code == "torn-frame" else None
    end = max(scan.end_position, start)
    if torn is None:
        return Tail(end, context.limit, not serious)
    name, offset = context.segments.place(end)
    if (torn.file, torn.offset) != (name, offset):
        return Tail(end, context.limit, False)  # not directly after the last intact frame
    with archive.storage.open(name) as file:
        header = DataHeader.unpack_from(file.read_at(offset, HEADER_LENGTH))
        next_at = offset + align(header.frame_length)
        has_more = last_written(file, next_at) > next_at
    torn_end = end + align(header.frame_length)
    is_plain = archive.checksum in CHECKSUMS and header.session_id == recording.session_id
    # A crash tears only the last frame. A frame with a session id in place of the checksum never had a checksum.
    if has_more or is_plain:
        return Tail(end, context.limit, False)
    if torn_end == recording.stop_position:  # the catalog counts it as whole
        return Tail(torn_end, context.limit, True)
    return Tail(end, context.limit, True, torn, torn_end)


# Steps


def _zero_tail(storage: WritableStorage, torn: Fault) -> ZeroTail:
    assert torn.offset is not None
    with storage.open(torn.file) as file:
        head, size = file.read_at(torn.offset, HEADER_LENGTH), file.size()
        end = max(last_written(file, torn.offset), torn.offset + HEADER_LENGTH)
    return ZeroTail(
        file=torn.file,
        before=f"a torn frame at offset {torn.offset}",
        after=f"zeros from offset {torn.offset} on",
        loses="the frame",
        storage=storage,
        offset=torn.offset,
        end=end,
        old_head=head,
        size=size,
    )


def _set_stop(storage: WritableStorage, entry: CatalogEntry, position: int, time_ms: int) -> list[WriteBytes]:
    """Write stop time and stop position at once, and clear and rewrite the entry's checksum around that if it is
    right."""
    first, last = RecordingDescriptor.field("stop_timestamp"), RecordingDescriptor.field("stop_position")
    body = bytearray(entry.body)
    body[first.offset : first.end] = time_ms.to_bytes(first.size, "little", signed=True)
    body[last.offset : last.end] = position.to_bytes(last.size, "little", signed=True)
    old_stop = "none" if entry.stop_position == NULL_POSITION else str(entry.stop_position)
    fields = WriteBytes(
        file=CATALOG_NAME,
        before=f"recording {entry.recording_id} with stop position {old_stop}",
        after=f"recording {entry.recording_id} with stop position {position}",
        loses="nothing: its frames end there",
        storage=storage,
        offset=entry.offset + DescriptorHeader.size + first.offset,
        old=entry.body[first.offset : last.end],
        new=bytes(body[first.offset : last.end]),
    )
    stored = entry.checksum & 0xFFFFFFFF
    crc = next((crc for crc in CHECKSUMS.values() if stored and crc.checksum(entry.body) == stored), None)
    if crc is None:
        return [fields]
    new = to_int32(crc.checksum(body))
    old = to_int32(stored)
    return [_checksum(storage, entry, old, 0), fields, _checksum(storage, entry, 0, new, before_plan=old)]


def _checksum(
    storage: WritableStorage, entry: CatalogEntry, old: int, new: int, before_plan: int | None = None
) -> WriteBytes:
    return WriteBytes(
        file=CATALOG_NAME,
        before=f"recording {entry.recording_id} with checksum {old or 'none'}",
        after=f"recording {entry.recording_id} with checksum {new or 'none'}",
        storage=storage,
        offset=entry.offset + DescriptorHeader.field("checksum").offset,
        old=old.to_bytes(4, "little", signed=True),
        new=new.to_bytes(4, "little", signed=True),
        before_plan=None if before_plan is None else before_plan.to_bytes(4, "little", signed=True),
    )
