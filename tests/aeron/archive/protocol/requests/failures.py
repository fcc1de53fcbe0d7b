"""Rows about files that are missing, damaged or in the way, and about deletions that go on."""

from __future__ import annotations

import shutil
from pathlib import Path

from everlog.aeron.archive import create
from everlog.aeron.archive.protocol.requests import (
    DeleteDetachedSegments,
    ExtendRecording,
    MigrateSegments,
    PurgeRecording,
    PurgeSegments,
    Replay,
    StartRecording,
    StopAllReplays,
    StopPosition,
    TruncateRecording,
)
from tests.aeron.archive.protocol.requests.recordings import recorded, started
from tests.aeron.archive.protocol.requests.replays import REPLAY_STREAM, what
from tests.aeron.archive.protocol.requests.run import (
    FRAME_BYTES,
    MTU,
    RECORDING_SESSIONS_TYPE,
    SEGMENT_BYTES,
    TERM_BYTES,
    Run,
)

FRAMES = 300
"""Two whole segments and a part of the third."""
MANY = 3_000
"""Files that an archive deletes one by one, while requests come that were sent together."""


def failure_rows(run: Run) -> None:
    """With checksums."""
    run.main = run.open("main")
    recorded(run, 10, FRAMES)
    _replays(run)
    _truncations(run)
    _deletions(run)
    _recordings(run)
    _renames(run)


def _file(run: Run, recording_id: int, base: int) -> Path:
    return run.place.archive_folder / f"{recording_id}-{base}.rec"


def _damaged_replay(run: Run, name: str, position: int, events: int = 2) -> None:
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    values = what(0, position, file_io_max_length=MTU)  # so that each read has one frame
    run.ask(f"replay, {name}", Replay, events=events, gives="replay", **values)
    subscription.close()
    run.until_idle()


def _replays(run: Run) -> None:
    first, second = _file(run, 0, 0), _file(run, 0, SEGMENT_BYTES)
    whole = first.read_bytes()
    aside = first.with_suffix(".aside")
    first.rename(aside)
    _damaged_replay(run, "its file is missing", 0, 1)
    first.mkdir()
    _damaged_replay(run, "a folder in its file's place", 0)
    first.rmdir()
    aside.rename(first)
    second.rename(aside)
    _damaged_replay(run, "the next file is missing", SEGMENT_BYTES - FRAME_BYTES)
    aside.rename(second)
    with open(first, "r+b") as file:
        file.truncate(FRAME_BYTES)
        file.seek(FRAME_BYTES)
        _damaged_replay(run, "its file ends before the position", 2 * FRAME_BYTES, 1)
        file.write(whole[FRAME_BYTES:])
        file.seek(TERM_BYTES)  # where no read begins before it: Aeron's archive sends nothing of a read with a fault
        file.write(bytes(FRAME_BYTES))
        file.flush()
        _damaged_replay(run, "zeros in place of a frame", TERM_BYTES - FRAME_BYTES)
        file.seek(TERM_BYTES)
        file.write(whole[TERM_BYTES : TERM_BYTES + FRAME_BYTES - 1] + b"\x63")
        file.flush()
        _damaged_replay(run, "a damaged frame", TERM_BYTES - FRAME_BYTES)
        file.seek(0)
        file.write(whole)


def _truncate(run: Run, name: str, recording_id: int) -> None:
    position = SEGMENT_BYTES + 2 * FRAME_BYTES
    run.ask(f"truncate, {name}", TruncateRecording, recording_id=recording_id, position=position)
    run.ask(f"stop position, {name}", StopPosition, recording_id=recording_id)


def _truncations(run: Run) -> None:
    for stream_id in (11, 12, 13, 14):
        recorded(run, stream_id, FRAMES)
    _file(run, 1, SEGMENT_BYTES).unlink()
    _truncate(run, "the file is missing", 1)
    folder = _file(run, 2, SEGMENT_BYTES)
    folder.unlink()
    folder.mkdir()
    _truncate(run, "a folder in the file's place", 2)
    folder.rmdir()
    with open(_file(run, 3, SEGMENT_BYTES), "r+b") as file:
        file.truncate(FRAME_BYTES)
    _truncate(run, "the file ends before the position", 3)
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    run.ask("replay that stands", Replay, gives="replay", **what(4, 0))
    assert run.until(lambda: bool(subscription.images))
    run.ask("truncate, in use by a replay", TruncateRecording, events=2, recording_id=4, position=FRAME_BYTES)
    subscription.close()
    run.ask("stop all replays", StopAllReplays, recording_id=-1)
    run.until_idle()
    run.ask("stop position, in use by a replay", StopPosition, recording_id=4)


def _deletions(run: Run) -> None:
    recorded(run, 15, FRAMES)
    folder = _file(run, 5, SEGMENT_BYTES)
    folder.unlink()
    (folder / "full").mkdir(parents=True)
    run.ask("purge, a folder in a file's place", PurgeRecording, events=3, recording_id=5)
    shutil.rmtree(folder)
    start = MANY * SEGMENT_BYTES
    recorded(run, 16, FRAMES, start)
    for number in range(MANY):
        _file(run, 6, number * SEGMENT_BYTES).touch()
    run.ask_together(
        "while detached segments are deleted",
        {
            "delete detached": (DeleteDetachedSegments, {"recording_id": 6}),
            "delete detached again": (DeleteDetachedSegments, {"recording_id": 6}),
            "truncate": (TruncateRecording, {"recording_id": 6, "position": start + FRAME_BYTES}),
            "purge segments": (PurgeSegments, {"recording_id": 6, "new_start_position": start + SEGMENT_BYTES}),
            "purge": (PurgeRecording, {"recording_id": 6}),
        },
        events=6,
    )
    recorded(run, 17, FRAMES)
    for number in range(MANY):
        _file(run, 7, number * SEGMENT_BYTES + TERM_BYTES).touch()
    run.ask_together(
        "while what was recorded is deleted",
        {
            "truncate": (TruncateRecording, {"recording_id": 7, "position": 0}),
            "extend": (ExtendRecording, {"recording_id": 7} | started("aeron:ipc", 17)),
        },
        events=3,
    )


def _recordings(run: Run) -> None:
    """A recording whose next file can't be made."""
    publication = run.publication(run.channel(18), 18)
    run.ask("start", StartRecording, events=2, gives="subscription", **started("aeron:ipc", 18))
    folder = _file(run, 8, SEGMENT_BYTES)
    folder.mkdir()
    run.until_recorded(8, run.publish(publication, SEGMENT_BYTES // FRAME_BYTES - 1))
    run.expect("a folder in the next file's place", 2, lambda: run.publish(publication, 2))
    run.until_idle(RECORDING_SESSIONS_TYPE)
    run.ask("stop position, after it failed", StopPosition, recording_id=8)
    publication.close()
    folder.rmdir()


def _renames(run: Run) -> None:
    recorded(run, 19, SEGMENT_BYTES // FRAME_BYTES, session_id=191)
    recorded(run, 19, SEGMENT_BYTES // FRAME_BYTES, SEGMENT_BYTES, session_id=192)
    source, target = _file(run, 9, 0), _file(run, 10, 0)
    source.unlink()
    source.mkdir()
    target.symlink_to(run.place.archive_folder / "nowhere")  # a folder can't take its place
    run.ask("migrate, a file can't be renamed", MigrateSegments, source_recording_id=9, target_recording_id=10)


def prepare_recording(folder: Path) -> None:
    """An archive that has a recording before it is started: 0, of stream 10, empty."""
    with create(folder) as archive:
        archive.start_recording("aeron:ipc?term-length=64k", 10).stop()
