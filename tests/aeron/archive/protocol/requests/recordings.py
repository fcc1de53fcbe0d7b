"""Rows about recordings that are started, stopped and extended."""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.protocol.requests import (
    ExtendRecording,
    ExtendRecording2,
    MaxRecordedPosition,
    PurgeRecording,
    RecordingPosition,
    SourceLocation,
    StartPosition,
    StartRecording,
    StartRecording2,
    StopPosition,
    StopRecording,
    StopRecordingByIdentity,
    StopRecordingSubscription,
)
from tests.aeron.archive.protocol.requests.run import FRAME_BYTES, RECORDING_SESSIONS_TYPE, Run

LOCAL, REMOTE = SourceLocation.LOCAL, SourceLocation.REMOTE
UDP = "aeron:udp?endpoint=127.0.0.1:{port}"


def started(channel: str, stream_id: int, **values: Any) -> dict[str, Any]:
    """Fields of a start request."""
    return {"channel": channel, "stream_id": stream_id, "source_location": LOCAL} | values


def recorded(
    run: Run, stream_id: int, frames: int, position: int = 0, *, session_id: int | None = None, **shape: Any
) -> int:
    """A stopped recording of an IPC stream with this many frames, without rows; returns its stop position."""
    session_id = stream_id if session_id is None else session_id
    channel = run.channel(session_id, position, **shape)
    request = started(f"aeron:ipc?session-id={session_id}", stream_id)
    publication = run.publication(channel, stream_id)
    first = len(run.rows)
    start = run.ask(f"start {stream_id}", StartRecording, events=2, gives=f"subscription {stream_id}", **request)
    (recording_id,) = [event[2] for event in start.events if event[0] == "SIGNAL"]
    end = run.publish(publication, frames)
    run.until_recorded(recording_id, end)
    run.ask(f"stop {stream_id}", StopRecording, events=2, channel=request["channel"], stream_id=stream_id)
    publication.close()
    del run.rows[first:]
    return end


def recording_rows(run: Run) -> None:
    """Of starting and stopping."""
    run.main = run.open("main")
    _refused(run)
    _by_channel(run)
    _by_other_ways(run)
    _udp(run)
    _auto_stop(run)
    _many_images(run)


def _refused(run: Run) -> None:
    for name, channel in {"no channel": "", "no URI": "ipc", "no media": "aeron:", "media": "aeron:tcp"}.items():
        run.ask(f"start, {name}", StartRecording, **started(channel, 10))
    run.ask("start, UDP without an endpoint", StartRecording, **started("aeron:udp", 10, source_location=REMOTE))
    run.ask("start, bad parameter", StartRecording, **started("aeron:ipc?session-id=x", 10))
    run.ask("stop, nothing there", StopRecording, channel="aeron:ipc", stream_id=10)
    run.ask("stop, no URI", StopRecording, channel="ipc", stream_id=10)
    run.ask("stop, unknown subscription", StopRecordingSubscription, subscription_id=1 << 40)
    run.ask("stop, unknown recording", StopRecordingByIdentity, recording_id=0)
    for kind in (StartPosition, StopPosition, RecordingPosition, MaxRecordedPosition):
        run.ask(f"{kind.__name__}, unknown recording", kind, recording_id=0)
        run.ask(f"{kind.__name__}, negative id", kind, recording_id=-1)


def _by_channel(run: Run) -> None:
    run.ask("start", StartRecording, gives="subscription 10", **started("aeron:ipc?alias=mine", 10))
    run.ask("start, the same", StartRecording, **started("aeron:ipc?alias=mine", 10))
    run.ask("start, the same key", StartRecording2, auto_stop=False, **started("aeron:ipc?term-length=128k", 10))
    run.ask("start, another session id", StartRecording, gives="other", **started("aeron:ipc?session-id=99", 10))
    run.ask("stop, another session id", StopRecording, channel="aeron:ipc?session-id=99", stream_id=10)
    publications = []
    run.expect("an image comes", 1, lambda: publications.append(run.publication(run.channel(20), 10)))
    run.ask("start position", StartPosition, recording_id=0)
    run.ask("stop position, active", StopPosition, recording_id=0)
    run.until_recorded(0, run.publish(publications[0], 3))
    run.ask("recording position, active", RecordingPosition, recording_id=0)
    run.ask("max recorded position, active", MaxRecordedPosition, recording_id=0)
    run.ask("purge, active", PurgeRecording, recording_id=0)
    run.ask("extend, active", ExtendRecording, recording_id=0, **started("aeron:ipc?session-id=7", 10))
    run.ask("stop, other stream", StopRecording, channel="aeron:ipc", stream_id=11)
    run.ask("stop by channel", StopRecording, events=2, channel="aeron:ipc", stream_id=10)
    run.ask("stop by channel again", StopRecording, channel="aeron:ipc", stream_id=10)
    run.ask("stop position", StopPosition, recording_id=0)
    run.ask("recording position, stopped", RecordingPosition, recording_id=0)
    run.ask("max recorded position, stopped", MaxRecordedPosition, recording_id=0)
    run.ask("stop by identity, stopped", StopRecordingByIdentity, recording_id=0)


def _by_other_ways(run: Run) -> None:
    publication = run.publication(run.channel(21, 4096), 12)
    run.ask("start, an image is there", StartRecording, events=2, gives="subscription 12", **started("aeron:ipc", 12))
    subscription = run.last_given
    run.until_recorded(1, run.publish(publication, 1))
    run.ask("stop by subscription", StopRecordingSubscription, events=2, subscription_id=subscription)
    run.ask("stop by subscription again", StopRecordingSubscription, subscription_id=subscription)
    run.ask("start once more", StartRecording, events=2, gives="subscription 12b", **started("aeron:ipc", 12))
    run.ask("stop by identity", StopRecordingByIdentity, events=2, recording_id=2)
    run.ask("stop by identity again", StopRecordingByIdentity, recording_id=2)
    run.ask("and its subscription", StopRecordingSubscription, subscription_id=run.last_given)


def _udp(run: Run) -> None:
    channel = UDP.format(port=run.port())
    publication = run.publication(run.channel(22, base=channel), 13)
    run.ask("start, UDP, local", StartRecording, events=2, gives="subscription 13", **started(channel, 13))
    run.until_recorded(3, run.publish(publication, 2))
    run.ask("stop, UDP, local", StopRecording, events=2, channel=channel, stream_id=13)
    channel = UDP.format(port=run.port())
    request = started(channel + "|term-length=64k|rejoin=true|alias=x", 14, source_location=REMOTE)
    run.ask("start, UDP, remote", StartRecording, gives="subscription 14", **request)
    publications = []
    run.expect(
        "a remote image comes", 1, lambda: publications.append(run.publication(run.channel(23, base=channel), 14))
    )
    run.until_recorded(4, run.publish(publications[0], 2))
    run.ask("stop, UDP, remote", StopRecording, events=2, channel=channel, stream_id=14)


def _auto_stop(run: Run) -> None:
    publication = run.publication(run.channel(24), 15)
    request = started("aeron:ipc", 15, auto_stop=True)
    run.ask("start, auto-stop", StartRecording2, events=2, gives="subscription 15", **request)
    run.until_recorded(5, run.publish(publication, 1))
    run.expect("its image goes", 1, publication.close)
    run.until_idle(RECORDING_SESSIONS_TYPE)
    run.ask("stop, after auto-stop", StopRecording, channel="aeron:ipc", stream_id=15)
    run.ask("start, auto-stop, again", StartRecording2, gives="subscription 15b", **request)
    run.ask("stop, auto-stop without an image", StopRecording, channel="aeron:ipc", stream_id=15)
    publication = run.publication(run.channel(25), 16)
    request = started("aeron:ipc", 16, auto_stop=False)
    run.ask("start, no auto-stop", StartRecording2, events=2, gives="subscription 16", **request)
    run.expect("its only image goes", 1, publication.close)
    run.until_idle(RECORDING_SESSIONS_TYPE)
    run.expect("and another one comes", 1, lambda: run.publication(run.channel(26), 16))
    run.ask("stop, its second image", StopRecording, events=2, channel="aeron:ipc", stream_id=16)


def _many_images(run: Run) -> None:
    for session_id in (31, 32):
        run.publication(run.channel(session_id), 17)
    run.ask("start, two images", StartRecording, events=3, gives="subscription 17", **started("aeron:ipc", 17))
    run.ask("stop one of two by identity", StopRecordingByIdentity, events=2, recording_id=8)
    run.ask("positions of the other", RecordingPosition, recording_id=9)
    run.ask("stop the other by identity", StopRecordingByIdentity, events=2, recording_id=9)


def extension_rows(run: Run) -> None:
    """Of extending."""
    run.main = run.open("main")
    end = recorded(run, 10, 3)
    _refused_extensions(run, end)
    _images_that_do_not_fit(run, end)
    _extensions(run, end)


def _refused_extensions(run: Run, end: int) -> None:
    assert end == 3 * FRAME_BYTES
    run.ask("extend, unknown recording", ExtendRecording, recording_id=5, **started("aeron:ipc", 10))
    run.ask("extend, other stream", ExtendRecording2, recording_id=0, auto_stop=False, **started("aeron:ipc", 11))
    run.ask("extend, no URI", ExtendRecording, recording_id=0, **started("ipc", 10))
    run.ask("a start with the key", StartRecording, gives="other", **started("aeron:ipc", 10))
    run.ask("extend, the key is there", ExtendRecording, recording_id=0, **started("aeron:ipc", 10))
    run.ask("its stop", StopRecording, channel="aeron:ipc", stream_id=10)


def _images_that_do_not_fit(run: Run, end: int) -> None:
    wrong = {
        "join position": {"position": end + 32},
        "start": {"position": 0},
        "initial term id": {"position": end, "initial_term_id": 6},
        "term length": {"position": end, "term_bytes": 128 << 10},
        "mtu": {"position": end, "mtu": 1024},
    }
    for number, (what, shape) in enumerate(wrong.items()):
        session_id = 40 + number
        channel = f"aeron:ipc?session-id={session_id}"
        request = started(channel, 10)
        run.ask(f"extend, for another {what}", ExtendRecording, gives=what, recording_id=0, **request)
        publications: list[Any] = []

        def come(session_id: int = session_id, shape: Any = shape, into: list[Any] = publications) -> None:
            into.append(run.publication(run.channel(session_id, **shape), 10))

        run.expect(f"an image with another {what}", 1, come)
        run.ask(f"stop, after another {what}", StopRecording, channel=channel, stream_id=10)
        publications[0].close()
    channel = "aeron:ipc?session-id=50"
    request = started(channel, 10, auto_stop=True)
    run.ask("extend, auto-stop", ExtendRecording2, gives="auto", recording_id=0, **request)
    run.expect("an image that does not fit", 1, lambda: run.publication(run.channel(50, 64), 10))
    run.ask("stop, after auto-stop", StopRecording, channel=channel, stream_id=10)


def _extensions(run: Run, end: int) -> None:
    publication = run.publication(run.channel(60, end), 10)
    request = started("aeron:ipc?session-id=60", 10)
    run.ask("extend", ExtendRecording, events=2, gives="extension", recording_id=0, **request)
    run.ask("stop position, extended", StopPosition, recording_id=0)
    position = run.publish(publication, 2)
    run.until_recorded(0, position)
    run.ask("extend, extended", ExtendRecording, recording_id=0, **started("aeron:ipc?session-id=61", 10))
    run.ask("max recorded position, extended", MaxRecordedPosition, recording_id=0)
    run.ask("stop, extended", StopRecording, events=2, channel="aeron:ipc?session-id=60", stream_id=10)
    run.ask("start position, extended", StartPosition, recording_id=0)
    publication = run.publication(run.channel(62, position), 10)
    request = started("aeron:ipc?session-id=62", 10, auto_stop=True)
    run.ask("extend with auto-stop", ExtendRecording2, events=2, gives="extension 2", recording_id=0, **request)
    run.until_recorded(0, run.publish(publication, 1))
    run.expect("the extension's image goes", 1, publication.close)
    run.until_idle(RECORDING_SESSIONS_TYPE)
    run.ask("stop, the extension with auto-stop", StopRecording, channel="aeron:ipc?session-id=62", stream_id=10)
    _extended_twice(run, position + FRAME_BYTES)


def _extended_twice(run: Run, position: int) -> None:
    """Both are granted, as no image is there yet."""
    names = {63: "first", 64: "second"}
    for session_id, name in names.items():
        request = started(f"aeron:ipc?session-id={session_id}", 10)
        run.ask(f"extend, the {name} of two", ExtendRecording, gives=f"the {name}", recording_id=0, **request)
    for session_id, name in names.items():
        channel = run.channel(session_id, position)
        run.expect(f"the image of the {name} comes", 1, lambda channel=channel: run.publication(channel, 10))  # type: ignore[misc]
    for session_id, name in names.items():
        events = 2 if name == "first" else 1
        channel = f"aeron:ipc?session-id={session_id}"
        run.ask(f"stop the {name}", StopRecording, events=events, channel=channel, stream_id=10)
