"""Rows about replays."""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.protocol.requests import (
    NULL_VALUE,
    BoundedReplay,
    DetachSegments,
    PurgeRecording,
    PurgeSegments,
    Replay,
    ReplayToken,
    SessionRequest,
    StartRecording,
    StopAllReplays,
    StopRecording,
    StopReplay,
)
from tests.aeron.archive.protocol.requests.door import older
from tests.aeron.archive.protocol.requests.recordings import recorded, started
from tests.aeron.archive.protocol.requests.run import FRAME_BYTES, MTU, SEGMENT_BYTES, Run

REPLAY_STREAM, REPLAY_SESSION = 900, 55
TO = "aeron:ipc"
FOLLOW, ALL = -1, -2
LIMIT_TYPE = 1500
FIRST, SHIFTED, EMPTY, ACTIVE = range(4)
FRAMES = 300


def what(recording_id: int, position: int = NULL_VALUE, length: int = FOLLOW, **values: Any) -> dict[str, Any]:
    """Fields of a replay request."""
    fields = {"recording_id": recording_id, "position": position, "length": length}
    return fields | {"replay_stream_id": REPLAY_STREAM, "replay_channel": TO} | values


def replay_rows(run: Run) -> None:
    """All of them."""
    run.main = run.open("main")
    recorded(run, 10, FRAMES)
    recorded(run, 11, 3, 4096)
    recorded(run, 12, 0)
    publication = run.publication(run.channel(13), 13)
    run.ask("start", StartRecording, events=2, gives="subscription", **started("aeron:ipc", 13))
    run.until_recorded(ACTIVE, run.publish(publication, 10))
    _refused(run)
    _whole_and_parts(run)
    _of_the_active(run)
    _bounded(run)
    _ends(run)
    _tokens(run)
    _in_use(run)
    run.ask("stop", StopRecording, events=2, channel="aeron:ipc", stream_id=13)


def _refused(run: Run) -> None:
    stop = FRAMES * FRAME_BYTES
    asked = {
        "unknown recording": what(9),
        "negative recording id": what(-1),
        "a position off the alignment": what(FIRST, 33),
        "before the start": what(SHIFTED, 0),
        "a negative position": what(FIRST, -64),
        "at the stop": what(FIRST, stop),
        "behind the stop": what(FIRST, stop + 32),
        "no frame there": what(FIRST, 32),
        "no frame there, in the second segment": what(FIRST, SEGMENT_BYTES + 96),
        "shorter reads than a frame": what(FIRST, file_io_max_length=MTU - 1),
        "a negative length": what(FIRST, length=-3),
        "a channel that the driver refuses": what(FIRST, replay_channel="aeron:udp"),
        "a session id that is none": what(FIRST, replay_channel="aeron:ipc?session-id=x"),
        "of the active one, behind the limit": what(ACTIVE, 11 * FRAME_BYTES),
        "of the active one, off the alignment": what(ACTIVE, 1),
    }
    for name, values in asked.items():
        run.ask(f"replay, {name}", Replay, **values)
        run.until_idle()
    for name, channel in {"no URI": "ipc", "no channel": ""}.items():
        values = what(FIRST, replay_channel=channel)
        row = f"replay, {name}"
        run.quiet(row, run.main, Replay(run.main.session_id, run.correlation_id(row), **values))
    run.ask("stop a replay that is not there", StopReplay, replay_session_id=77)
    run.ask("stop all replays, none there", StopAllReplays, recording_id=FIRST)
    run.ask("stop all replays of an unknown recording", StopAllReplays, recording_id=99)
    run.ask("stop all replays of all recordings", StopAllReplays, recording_id=-1)


def _replay(run: Run, name: str, kind: type[SessionRequest], values: dict[str, Any], frames: int) -> None:
    """A replay that is listened to, to its end."""
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    row = run.ask(name, kind, gives="replay", **values)
    run.replayed(row, subscription, frames)
    subscription.close()
    run.until_idle()


def _whole_and_parts(run: Run) -> None:
    asked = {
        "all and follow": (what(FIRST), FRAMES),
        "all": (what(FIRST, length=ALL), FRAMES),
        "from its start on": (what(FIRST, 0), FRAMES),
        "from a frame on": (what(FIRST, 2 * FRAME_BYTES), FRAMES - 2),
        "across segments": (what(FIRST, SEGMENT_BYTES - FRAME_BYTES, 3 * FRAME_BYTES), 3),
        "one frame": (what(FIRST, 5 * FRAME_BYTES, FRAME_BYTES), 1),
        "longer than there is": (what(FIRST, (FRAMES - 2) * FRAME_BYTES, 1 << 40), 2),
        "with reads of one frame": (what(FIRST, 0, 10 * FRAME_BYTES, file_io_max_length=MTU), 10),
        "of the shifted one": (what(SHIFTED), 3),
        "of the shifted one, from its start": (what(SHIFTED, 4096, FRAME_BYTES), 1),
        "all of the shifted one": (what(SHIFTED, length=ALL), 3),
    }
    for name, (values, frames) in asked.items():
        _replay(run, f"replay, {name}", Replay, values, frames)
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    values = what(FIRST, 0, FRAME_BYTES, replay_channel=f"aeron:ipc?session-id={REPLAY_SESSION}|linger=0|alias=x")
    row = run.ask("replay, with a session id", Replay, gives="replay", **values)
    run.replayed(row, subscription, 1)
    row.events.append(["LOW HALF OF THE REPLAY ID", run.last_given & 0xFFFF_FFFF])
    subscription.close()
    run.until_idle()
    name = "replay, of a client of schema version 6"
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    request = Replay(run.main.session_id, run.correlation_id(name), 0, 0, FRAME_BYTES, REPLAY_STREAM, replay_channel=TO)
    row = run.row(name, run.main, older(request, 44, 6), gives="replay", shown=run.shown(request))
    run.replayed(row, subscription, 1)
    subscription.close()
    run.until_idle()


def _of_the_active(run: Run) -> None:
    asked = {
        "all that is there": (what(ACTIVE, length=ALL), 10),
        "a part that is there": (what(ACTIVE, FRAME_BYTES, 2 * FRAME_BYTES), 2),
        "from its end": (what(ACTIVE, 10 * FRAME_BYTES), 0),
        "to follow": (what(ACTIVE, 8 * FRAME_BYTES), 2),
    }
    for name, (values, frames) in asked.items():
        subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
        row = run.ask(f"replay of the active one, {name}", Replay, gives="replay", **values)
        run.replayed(row, subscription, frames)
        if name in ("to follow", "from its end"):
            run.ask(f"stop a replay {name}", StopReplay, replay_session_id=run.last_given)
        subscription.close()
        run.until_idle()


def _bounded(run: Run) -> None:
    limit = run.aeron.add_counter(LIMIT_TYPE, "limit")
    limit.value = 4 * FRAME_BYTES
    for counter_id in (-1, 1 << 30):
        run.ask(f"bounded replay, counter {counter_id}", BoundedReplay, **what(FIRST, limit_counter_id=counter_id))
    bounded = {"limit_counter_id": limit.counter_id}
    refused = {
        "unknown recording": what(9, **bounded),
        "a position off the alignment": what(FIRST, 33, **bounded),
        "behind the limit": what(FIRST, 5 * FRAME_BYTES, **bounded),
        "at the stop": what(FIRST, FRAMES * FRAME_BYTES, **bounded),
    }
    for name, values in refused.items():
        row = run.ask(f"bounded replay, {name}", BoundedReplay, **values)
        row.request = row.request.replace(f"limit_counter_id={limit.counter_id}", "limit_counter_id=<limit>")
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    row = run.ask("bounded replay", BoundedReplay, gives="replay", **what(FIRST, FRAME_BYTES, **bounded))
    row.request = row.request.replace(f"limit_counter_id={limit.counter_id}", "limit_counter_id=<limit>")
    run.replayed(row, subscription, 3)
    limit.value = 6 * FRAME_BYTES
    run.replayed(run.expect("the limit moves", 0), subscription, 2)
    run.ask("stop the bounded replay", StopReplay, replay_session_id=run.last_given)
    subscription.close()
    run.until_idle()


def _ends(run: Run) -> None:
    run.ask("replay that nobody listens to", Replay, gives="replay", **what(FIRST))
    run.expect("nobody has come")
    run.until_idle()
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    run.ask("replay of an empty one", Replay, gives="replay", **what(EMPTY))
    run.until_idle()
    run.ask("replay of all of an empty one", Replay, events=2, gives="replay", **what(EMPTY, length=ALL))
    run.until_idle()
    run.ask("replay of an empty one, from its start", Replay, **what(EMPTY, 0))
    subscription.close()
    run.until_idle()


def _tokens(run: Run) -> None:
    run.ask("a token", ReplayToken, gives="token", recording_id=FIRST)
    run.ask("a token for an unknown recording", ReplayToken, gives="other token", recording_id=99)
    response = "aeron:udp?control=localhost:24123|control-mode=response"
    for name, recording_id, token in (
        ("a token that is none", FIRST, 12345),
        ("the token of another recording", FIRST, run.last_given),
    ):
        values = what(recording_id, replay_channel=response, replay_token=token)
        row = f"replay, {name}"
        run.quiet(row, run.main, Replay(run.main.session_id, run.correlation_id(row), **values))
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    values = what(FIRST, 0, FRAME_BYTES, replay_token=12345)
    run.replayed(
        run.ask("replay, a token without a response channel", Replay, gives="replay", **values), subscription, 1
    )
    subscription.close()
    run.until_idle()


def _in_use(run: Run) -> None:
    """A replay that stands at the beginning, as its subscriber does not read."""
    subscription = run.subscribe(TO, REPLAY_STREAM)
    run.ask("replay that stands", Replay, gives="replay", **what(FIRST, 0))
    assert run.until(lambda: bool(subscription.images))
    run.ask("purge, in use by a replay", PurgeRecording, recording_id=FIRST)
    run.ask("detach, in use by a replay", DetachSegments, recording_id=FIRST, new_start_position=SEGMENT_BYTES)
    run.ask("purge segments, in use by a replay", PurgeSegments, recording_id=FIRST, new_start_position=SEGMENT_BYTES)
    run.ask("stop all replays of another recording", StopAllReplays, recording_id=SHIFTED)
    run.ask("purge, still in use by a replay", PurgeRecording, recording_id=FIRST)
    run.ask("stop all replays of the recording", StopAllReplays, recording_id=FIRST)
    run.until_idle()
    run.ask(
        "purge segments, not in use any more",
        PurgeSegments,
        events=2,
        recording_id=FIRST,
        new_start_position=SEGMENT_BYTES,
    )
    subscription.close()
