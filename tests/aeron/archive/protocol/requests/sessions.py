"""Rows about sessions: opening, closing, and requests of sessions that are not there."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_type_hints

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION
from everlog.aeron.archive.protocol.requests import (
    REQUESTS,
    ArchiveId,
    ChallengeResponse,
    CloseSession,
    Connect,
    KeepAlive,
    ListRecording,
    ListRecordings,
    ReplayToken,
    Replicate,
    Replicate2,
    SessionRequest,
    SourceLocation,
    StartPosition,
    StopRecordingSubscription,
    TaggedReplicate,
    UpdateChannel,
)
from everlog.aeron.messages import Number
from tests.aeron.archive.protocol.requests.door import Door, with_header
from tests.aeron.archive.protocol.requests.run import Run

UNKNOWN_SESSION = 0x7000_0000_0000
REPLICATIONS = (Replicate, TaggedReplicate, Replicate2)


def session_rows(run: Run) -> None:
    """All of them."""
    _opening(run)
    _unknown(run)
    _strange_bytes(run)
    _closing(run)


def _opening(run: Run) -> None:
    main = run.main = run.door("main")
    run.connect("connect by UDP", main)
    run.row("keep-alive", main, KeepAlive(main.session_id, run.correlation_id("keep-alive")), events=0)
    run.ask("archive id", ArchiveId)
    local = run.door("local", local=True)
    run.connect("connect by IPC", local)
    run.ask("archive id over IPC", ArchiveId, door=local)
    _as_before(run)
    _versions(run)
    run.ask("a challenge's answer that nobody asked for", ChallengeResponse, events=0, encoded_credentials=b"me")
    slow = run.door("slow")
    run.connect("connect, and say nothing", slow)
    run.expect("the answer is sent again until a request comes")
    run.ask("the first request makes a session active", StartPosition, door=slow, recording_id=0)
    tokens = run.door("tokens")
    run.connect("connect to ask for a token", tokens)
    run.ask("a token for a recording that is not there", ReplayToken, door=tokens, recording_id=0, gives="token")
    run.ask("a channel for a recording that is not there", UpdateChannel, door=tokens, recording_id=0, channel="x")


def _as_before(run: Run) -> None:
    """The connect request of the first schemas."""
    before = run.door("before")
    name = "connect as before credentials"
    channel, stream_id = before.response_channel, before.response_stream_id
    request = Connect(run.correlation_id(name), stream_id, PROTOCOL_VERSION, channel)
    run.row(name, before, request, shown="Connect()", barrier=False)
    run.ask("archive id, as before credentials", ArchiveId, door=before)


def _versions(run: Run) -> None:
    for name, version in {"1.0.0": 1 << 16, "1.255.255": 0x1FFFF, "0.9.0": 9 << 8, "2.0.0": 2 << 16}.items():
        door = run.door(name)
        row = f"connect with protocol {name}"
        request = replace(door.connect_request(run.correlation_id(row)), version=version)
        run.row(row, door, request, shown=f"AuthConnect(version={name})", barrier=False)
        run.leave(door)
        run.until(lambda: False, 0.05)


def _unknown(run: Run) -> None:
    for kind in REQUESTS:
        if issubclass(kind, SessionRequest):
            name = f"{kind.__name__}, unknown session"
            request = kind(UNKNOWN_SESSION, run.correlation_id(name), **any_values(kind))
            run.row(name, run.main, request, events=0)


def any_values(kind: type[SessionRequest]) -> dict[str, Any]:
    """For the fields behind the ids."""
    hints = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for each in fields(kind)[2:]:
        declared = hints[each.name].__metadata__[0]
        if isinstance(declared, Number):
            values[each.name] = SourceLocation.LOCAL if each.name == "source_location" else 0
        else:
            values[each.name] = "aeron:ipc" if declared.encoding else b""
    return values


def _strange_bytes(run: Run) -> None:
    """Messages that are none: the session lives on."""
    main = run.main
    request = ListRecordings(main.session_id, run.correlation_id("strange"), 0, 1)
    run.row("unknown template", main, with_header(request, template=999), events=0)
    run.row("an answer as a request", main, with_header(request, template=1), events=0)
    run.row("another schema", main, with_header(request, schema=102), events=0)
    run.ask("and the session lives", ArchiveId)


def _closing(run: Run) -> None:
    stranger = run.open("stranger")
    name = "a request through another image"
    request = StartPosition(run.main.session_id, run.correlation_id(name), 0)
    run.quiet(name, stranger, request)
    victim = run.open("victim")
    run.ask("before it is closed", ArchiveId, door=victim)
    run.quiet("close through another image", stranger, CloseSession(victim.session_id))
    run.quiet("after it was closed through another image", victim, _list(run, victim, "after another's close"))
    own = run.open("own")
    run.quiet("close", own, CloseSession(own.session_id))
    run.quiet("after it was closed", own, _list(run, own, "after its close"))
    run.quiet("close a session that is not there", run.main, CloseSession(UNKNOWN_SESSION))
    run.ask("the main session goes on", StopRecordingSubscription, subscription_id=1 << 40)


def _list(run: Run, door: Door, name: str) -> ListRecording:
    return ListRecording(door.session_id, run.correlation_id(name), 0)
