"""Rows about what is cut off, moved and deleted."""

from __future__ import annotations

from pathlib import Path

from everlog.aeron.archive.protocol.requests import (
    AttachSegments,
    DeleteDetachedSegments,
    DetachSegments,
    ListRecording,
    MigrateSegments,
    PurgeRecording,
    PurgeSegments,
    StartPosition,
    StartRecording,
    StopPosition,
    StopRecording,
    TruncateRecording,
)
from tests.aeron.archive.protocol.requests.recordings import recorded, started
from tests.aeron.archive.protocol.requests.run import FRAME_BYTES, SEGMENT_BYTES, TERM_BYTES, Run

FRAMES = 600
"""Four whole segments and a part of the fifth."""


def maintenance_rows(run: Run) -> None:
    """Of one recording."""
    run.main = run.open("main")
    recorded(run, 10, FRAMES)
    recorded(run, 11, FRAMES, 4096)
    publication = run.publication(run.channel(12), 12)
    run.ask("start", StartRecording, events=2, gives="subscription", **started("aeron:ipc", 12))
    run.until_recorded(2, run.publish(publication, 10))
    _unknown(run)
    _truncated(run)
    _detached(run)
    _damaged(run)
    _purged(run)


def _unknown(run: Run) -> None:
    run.ask("truncate, unknown", TruncateRecording, recording_id=9, position=0)
    run.ask("purge, unknown", PurgeRecording, recording_id=9)
    run.ask("detach, unknown", DetachSegments, recording_id=9, new_start_position=0)
    run.ask("purge segments, unknown", PurgeSegments, recording_id=9, new_start_position=0)
    run.ask("delete detached, unknown", DeleteDetachedSegments, recording_id=9)
    run.ask("attach, unknown", AttachSegments, recording_id=9)
    run.ask("migrate, unknown source", MigrateSegments, source_recording_id=9, target_recording_id=0)
    run.ask("migrate, unknown target", MigrateSegments, source_recording_id=0, target_recording_id=9)
    run.ask("truncate, active", TruncateRecording, recording_id=2, position=0)
    run.ask("purge, active", PurgeRecording, recording_id=2)
    run.ask("detach, active, too far", DetachSegments, recording_id=2, new_start_position=SEGMENT_BYTES)
    run.ask("migrate, active source", MigrateSegments, source_recording_id=2, target_recording_id=0)
    run.ask("delete detached, active", DeleteDetachedSegments, events=2, recording_id=2)


def _truncated(run: Run) -> None:
    stop = FRAMES * FRAME_BYTES
    for name, position in {
        "behind the stop": stop + 32,
        "before the start": -32,
        "off the alignment": 2 * FRAME_BYTES + 1,
    }.items():
        run.ask(f"truncate, {name}", TruncateRecording, recording_id=0, position=position)
    run.ask("truncate, before its start", TruncateRecording, recording_id=1, position=2048)
    for name, position in {
        "at its stop": stop,
        "in the last segment": stop - FRAME_BYTES,
        "in the last but one": 4 * SEGMENT_BYTES - FRAME_BYTES,
        "at a segment's start": 3 * SEGMENT_BYTES,
        "at a term's start": 2 * SEGMENT_BYTES + TERM_BYTES,
    }.items():
        run.ask(f"truncate, {name}", TruncateRecording, events=2, recording_id=0, position=position)
        run.ask(f"stop position, truncated {name}", StopPosition, recording_id=0)
    recorded(run, 13, 3)
    run.ask("truncate, within a frame", TruncateRecording, recording_id=3, position=FRAME_BYTES + 32)
    run.ask("stop position, truncated within a frame", StopPosition, recording_id=3)
    recorded(run, 14, 300)
    run.ask("truncate, to nothing", TruncateRecording, events=2, recording_id=4, position=0)
    run.ask("truncate, nothing left", TruncateRecording, events=2, recording_id=4, position=0)
    run.ask("listed, truncated to nothing", ListRecording, recording_id=4)


def _detached(run: Run) -> None:
    for name, position in {
        "no segment's start": FRAME_BYTES,
        "a term's start": TERM_BYTES,
        "the first segment": 0,
        "behind the last segment": 6 * SEGMENT_BYTES,
        "a negative position": -SEGMENT_BYTES,
    }.items():
        run.ask(f"detach, {name}", DetachSegments, recording_id=1, new_start_position=position)
        run.ask(f"purge segments, {name}", PurgeSegments, recording_id=1, new_start_position=position)
    run.ask("attach, nothing detached", AttachSegments, recording_id=1)
    run.ask("delete detached, nothing detached", DeleteDetachedSegments, events=2, recording_id=1)
    run.ask("detach", DetachSegments, recording_id=1, new_start_position=2 * SEGMENT_BYTES)
    run.ask("start position, detached", StartPosition, recording_id=1)
    run.ask("attach", AttachSegments, recording_id=1)
    run.ask("start position, attached", StartPosition, recording_id=1)
    run.ask("detach again", DetachSegments, recording_id=1, new_start_position=2 * SEGMENT_BYTES)
    run.ask("delete detached", DeleteDetachedSegments, events=2, recording_id=1)
    run.ask("delete detached again", DeleteDetachedSegments, events=2, recording_id=1)
    run.ask("attach, after they were deleted", AttachSegments, recording_id=1)
    run.ask("purge segments", PurgeSegments, events=2, recording_id=1, new_start_position=3 * SEGMENT_BYTES)
    run.ask("detach, to the last segment", DetachSegments, recording_id=1, new_start_position=4 * SEGMENT_BYTES)
    run.ask("attach, the last but one", AttachSegments, recording_id=1)


def _damaged(run: Run) -> None:
    """Files that are not what the catalog says, below a detached start."""
    recorded(run, 15, FRAMES)
    run.ask("detach the damaged", DetachSegments, recording_id=5, new_start_position=4 * SEGMENT_BYTES)
    third = run.place.archive_folder / f"5-{3 * SEGMENT_BYTES}.rec"
    whole = third.read_bytes()
    damages = {
        "a short file": whole[: SEGMENT_BYTES // 2],
        "another term id": whole[:20] + b"\x63" + whole[21:],
        "another stream id": whole[:16] + b"\x63" + whole[17:],
        "nothing in it": bytes(SEGMENT_BYTES),
    }
    for name, damaged in damages.items():
        _write(third, damaged)
        run.ask(f"attach, {name}", AttachSegments, recording_id=5)
        run.ask(f"start position, {name}", StartPosition, recording_id=5)
    _write(third, whole)
    second = run.place.archive_folder / f"5-{2 * SEGMENT_BYTES}.rec"
    kept = second.read_bytes()
    second.unlink()
    run.ask("attach, as far as there are files", AttachSegments, recording_id=5)
    run.ask("detach them again", DetachSegments, recording_id=5, new_start_position=4 * SEGMENT_BYTES)
    run.ask("delete detached, one is gone", DeleteDetachedSegments, events=2, recording_id=5)
    _write(second, kept)


def _write(path: Path, data: bytes) -> None:
    """In place, so that its length is what it is at all times."""
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()


def _purged(run: Run) -> None:
    run.ask("purge", PurgeRecording, events=2, recording_id=0)
    run.ask("purge again", PurgeRecording, recording_id=0)
    run.ask("start position, purged", StartPosition, recording_id=0)
    run.ask("stop", StopRecording, events=2, channel="aeron:ipc", stream_id=12)
    run.ask("purge, stopped", PurgeRecording, events=2, recording_id=2)
    run.ask("purge, nothing left", PurgeRecording, events=2, recording_id=4)


def migration_rows(run: Run) -> None:
    """Of segments that go from one recording to another."""
    run.main = run.open("main")
    segment = SEGMENT_BYTES // FRAME_BYTES
    recorded(run, 10, 2 * segment, session_id=101)  # 0: to 2 segments
    recorded(run, 10, 2 * segment + 10, 2 * SEGMENT_BYTES, session_id=102)  # 1: follows 0
    recorded(run, 10, segment, 8 * SEGMENT_BYTES, session_id=103)  # 2: far behind
    recorded(run, 11, segment, 2 * SEGMENT_BYTES, session_id=104)  # 3: other stream
    recorded(run, 10, segment, 2 * SEGMENT_BYTES, initial_term_id=7, session_id=105)  # 4
    recorded(run, 10, segment, 2 * SEGMENT_BYTES, term_bytes=128 << 10, session_id=106)  # 5
    recorded(run, 10, segment, 2 * SEGMENT_BYTES, mtu=2048, session_id=107)  # 6
    recorded(run, 10, 10, 0, session_id=108)  # 7: ends within a segment
    recorded(run, 10, 10, 10 * FRAME_BYTES, session_id=109)  # 8: goes on there
    recorded(run, 10, 10, 256 << 10, term_bytes=256 << 10, session_id=110)  # 9: longer segments
    asked = {
        "not contiguous": (2, 0),
        "itself": (0, 0),
        "another stream": (3, 0),
        "another initial term id": (4, 0),
        "another term length": (5, 0),
        "another mtu": (6, 0),
        "another segment length": (9, 0),
        "joined within a segment": (8, 7),
    }
    for name, (source, target) in asked.items():
        run.ask(f"migrate, {name}", MigrateSegments, source_recording_id=source, target_recording_id=target)
    _files_in_the_way(run)
    # The recorder has begun the next segment already, as the recording ends with its segment.
    run.ask("migrate, the empty last file is there", MigrateSegments, source_recording_id=1, target_recording_id=0)
    (run.place.archive_folder / f"0-{2 * SEGMENT_BYTES}.rec").unlink(missing_ok=True)
    run.ask("migrate to the end", MigrateSegments, events=2, source_recording_id=1, target_recording_id=0)
    for recording_id in (0, 1):
        run.ask(f"listed, {recording_id} migrated to the end", ListRecording, recording_id=recording_id)
    recorded(run, 10, 3 * segment, 5 * SEGMENT_BYTES, session_id=111)  # 10: before 2
    run.ask("migrate to the beginning", MigrateSegments, events=2, source_recording_id=10, target_recording_id=2)
    for recording_id in (2, 10):
        run.ask(f"listed, {recording_id} migrated to the beginning", ListRecording, recording_id=recording_id)
    run.ask("migrate nothing", MigrateSegments, events=2, source_recording_id=10, target_recording_id=2)
    recorded(run, 12, 192, TERM_BYTES, session_id=112)  # 11: from a term on, so within a segment of its own
    recorded(run, 12, segment, 2 * SEGMENT_BYTES, session_id=113)  # 12: follows 11
    name = "migrate, joined within a segment of the target"
    run.ask(name, MigrateSegments, source_recording_id=12, target_recording_id=11)


def _files_in_the_way(run: Run) -> None:
    folder = run.place.archive_folder
    source, target = (folder / f"{number}-{2 * SEGMENT_BYTES}.rec" for number in (1, 0))
    kept = target.read_bytes() if target.exists() else None
    _write(target, b"in the way")
    run.ask("migrate, a target file is there", MigrateSegments, source_recording_id=1, target_recording_id=0)
    target.unlink()
    if kept is not None:
        _write(target, kept)
    aside = source.with_suffix(".aside")
    source.rename(aside)
    run.ask("migrate, a source file is missing", MigrateSegments, source_recording_id=1, target_recording_id=0)
    aside.rename(source)
