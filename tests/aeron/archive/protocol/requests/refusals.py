"""Rows of archives that are at their limits, or that do not let everybody do everything."""

from __future__ import annotations

from everlog.aeron.archive.protocol.requests import (
    REQUESTS,
    ArchiveId,
    BoundedReplay,
    ChallengeResponse,
    ExtendRecording,
    KeepAlive,
    Replay,
    SessionRequest,
    StartRecording,
    StartRecording2,
    StopAllReplays,
    StopRecording,
    StopReplay,
)
from tests.aeron.archive.protocol.requests.recordings import recorded, started
from tests.aeron.archive.protocol.requests.replays import REPLAY_STREAM, what
from tests.aeron.archive.protocol.requests.run import FRAME_BYTES, RECORDING_SESSIONS_TYPE, REPLAY_SESSIONS_TYPE, Run
from tests.aeron.archive.protocol.requests.sessions import any_values


def limit_rows(run: Run) -> None:
    """With two recordings and two replays at a time."""
    run.main = run.open("main")
    recorded(run, 10, 3)
    run.until_idle(RECORDING_SESSIONS_TYPE)
    for stream_id in (11, 12):
        run.publication(run.channel(stream_id), stream_id)
        name = f"start, stream {stream_id}"
        run.ask(name, StartRecording, events=2, gives=f"subscription {stream_id}", **started("aeron:ipc", stream_id))
    run.ask("start, one too many", StartRecording, **started("aeron:ipc", 13))
    run.ask("start, one too many and no URI", StartRecording2, auto_stop=True, **started("ipc", 13))
    run.ask("extend, one too many", ExtendRecording, recording_id=0, **started("aeron:ipc", 10))
    run.ask("extend an unknown one, one too many", ExtendRecording, recording_id=9, **started("aeron:ipc", 10))
    run.ask("stop one", StopRecording, events=2, channel="aeron:ipc", stream_id=11)
    run.until_idle(RECORDING_SESSIONS_TYPE, 1)
    run.ask("start, after one has ended", StartRecording, gives="subscription 13", **started("aeron:ipc", 13))
    run.ask("start, one too many again", StartRecording, gives="subscription 14", **started("aeron:ipc", 14))
    _replays(run)


def _replays(run: Run) -> None:
    subscription = run.subscribe("aeron:ipc", REPLAY_STREAM)
    active = 2
    for name in ("first", "second"):
        run.ask(f"replay, the {name}", Replay, gives=f"{name} replay", **what(active, 0))
    run.ask("replay, one too many", Replay, **what(active, 0))
    run.ask("replay an unknown one, one too many", Replay, **what(9))
    limit = run.aeron.add_counter(1500, "limit")
    limit.value = FRAME_BYTES
    row = run.ask("bounded replay, one too many", BoundedReplay, **what(0, 0, limit_counter_id=limit.counter_id))
    row.request = row.request.replace(f"limit_counter_id={limit.counter_id}", "limit_counter_id=<limit>")
    run.ask("stop one of the replays", StopReplay, replay_session_id=run.last_given)
    run.until_idle(REPLAY_SESSIONS_TYPE, 1)
    run.ask("replay, after one has ended", Replay, gives="third replay", **what(active, 0))
    run.ask("stop all of them", StopAllReplays, recording_id=-1)
    run.until_idle()
    subscription.close()


def full_rows(run: Run) -> None:
    """Without space to record; there is a recording from before."""
    run.main = run.open("main")
    run.ask("start, no space", StartRecording, **started("aeron:ipc", 10))
    run.ask("start, no space and no URI", StartRecording2, auto_stop=False, **started("ipc", 10))
    run.ask("extend, no space, an unknown one", ExtendRecording, recording_id=1, **started("aeron:ipc", 10))
    run.ask("extend, no space", ExtendRecording, recording_id=0, **started("aeron:ipc", 10))
    run.ask("stop, no space", StopRecording, channel="aeron:ipc", stream_id=10)


def secured_rows(run: Run) -> None:
    """Where credentials decide who may do what."""
    run.main = run.door("admin")
    run.connect("connect, admin", run.main, b"admin")
    run.ask("archive id, admin", ArchiveId)
    for credentials in (b"", b"somebody"):
        door = run.door(f"credentials {credentials!r}")
        run.connect(f"connect with {credentials!r}", door, credentials)
        run.expect(f"the rejection of {credentials!r} is sent again")
        run.leave(door)
        run.until(lambda: False, 0.05)
    silent = run.door("silent")
    name = "connect, and the authenticator never decides"
    run.quiet(name, silent, silent.connect_request(run.correlation_id(name), b"silent"), "AuthConnect(b'silent')")
    run.leave(silent)
    _challenged(run)
    reader = run.door("reader")
    run.connect("connect, reader", reader, b"reader")
    for kind in REQUESTS:
        if issubclass(kind, SessionRequest) and kind is not ChallengeResponse:
            name = f"{kind.__name__} of a reader"
            request = kind(reader.session_id, run.correlation_id(name), **(any_values(kind) | {}))
            events = 0 if kind is KeepAlive or (name.startswith("List") and "Count" in name) else 1
            if kind.__name__ in ("ListRecordings", "ListRecordingsForUri"):
                continue  # they ask for nothing
            run.row(name, reader, request, events=events)


def _challenged(run: Run) -> None:
    door = run.door("asked")
    run.connect("connect, and be asked", door, b"asked")
    name = "a request before the challenge is answered"
    run.quiet(name, door, ArchiveId(door.session_id, run.correlation_id(name)))
    name = "the right answer to the challenge"
    request = ChallengeResponse(door.session_id, run.correlation_id(name), b"admin")
    run.row(name, door, request, events=2, shown="ChallengeResponse(b'admin')", barrier=False)
    run.ask("archive id, after the challenge", ArchiveId, door=door)
    wrong = run.door("wrong")
    run.connect("connect, and be asked again", wrong, b"asked")
    name = "a wrong answer to the challenge"
    request = ChallengeResponse(wrong.session_id, run.correlation_id(name), b"somebody")
    run.row(name, wrong, request, shown="ChallengeResponse(b'somebody')", barrier=False)
    run.leave(wrong)
