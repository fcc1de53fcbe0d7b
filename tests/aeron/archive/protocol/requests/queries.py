"""Rows about what an archive lists and finds."""

from __future__ import annotations

import time
from typing import Any

from everlog.aeron.archive.protocol.requests import (
    FindLastMatchingRecording,
    ListRecording,
    ListRecordings,
    ListRecordingsForUri,
    ListRecordingSubscriptions,
    PurgeRecording,
    SessionRequest,
    StartRecording,
    StopRecording,
    UpdateChannel,
)
from tests.aeron.archive.protocol.requests.recordings import recorded, started
from tests.aeron.archive.protocol.requests.run import Row, Run

LONG = "aeron:ipc?alias=" + "x" * 3700
"""Few descriptors with such a channel fill the response stream's window."""
LONG_COUNT = 12


def query_rows(run: Run) -> None:
    """All of them."""
    run.main = run.open("main")
    _nothing_there(run)
    for stream_id, frames in ((10, 3), (11, 0), (12, 1)):
        recorded(run, stream_id, frames)
    run.ask("one is purged", PurgeRecording, events=2, recording_id=2)
    run.publication(run.channel(13, 2048), 10)
    run.ask("one is active", StartRecording, events=2, gives="subscription", **started("aeron:ipc?alias=a", 10))
    _lists(run)
    _lists_for_uri(run)
    _none_or_fewer(run)
    _finds(run)
    _subscriptions(run)
    _channels(run)


def _nothing_there(run: Run) -> None:
    run.ask("list, nothing there", ListRecordings, from_recording_id=0, record_count=10)
    run.ask("list for a URI, nothing there", ListRecordingsForUri, **_uri("ipc", 10))
    run.ask("list one, nothing there", ListRecording, recording_id=0)
    run.ask("find, nothing there", FindLastMatchingRecording, **_match(0, 1, 10))
    run.ask("subscriptions, nothing there", ListRecordingSubscriptions, **_listed(0, 10))


def _uri(channel: str, stream_id: int, first: int = 0, count: int = 10) -> dict[str, Any]:
    return {"from_recording_id": first, "record_count": count, "stream_id": stream_id, "channel": channel}


def _match(first: int, session_id: int, stream_id: int, channel: str = "ipc") -> dict[str, Any]:
    return {"min_recording_id": first, "session_id": session_id, "stream_id": stream_id, "channel": channel}


def _listed(index: int, count: int, stream_id: int | None = None, channel: str = "") -> dict[str, Any]:
    chosen = {"apply_stream_id": stream_id is not None, "stream_id": stream_id or 0, "channel": channel}
    return {"pseudo_index": index, "subscription_count": count} | chosen


def _lists(run: Run) -> None:
    asked = {
        "all": (0, 10, 4),
        "as many as there are": (0, 3, 3),
        "two": (0, 2, 2),
        "from the purged one": (2, 10, 2),
        "from the last": (3, 10, 2),
        "one behind the last": (4, 1, 1),
        "far behind": (99, 10, 1),
        "from a negative id": (-5, 10, 4),
        "the most": (0, (1 << 31) - 1, 4),
    }
    for name, (first, count, events) in asked.items():
        run.ask(f"list, {name}", ListRecordings, events=events, from_recording_id=first, record_count=count)
    for recording_id in (0, 2, 3, 4, -1):
        run.ask(f"list recording {recording_id}", ListRecording, recording_id=recording_id)


def _lists_for_uri(run: Run) -> None:
    asked = {
        "of a stream": (_uri("ipc", 10), 3),
        "one of two": (_uri("ipc", 10, count=1), 1),
        "both of two": (_uri("ipc", 10, count=2), 2),
        "from the second": (_uri("ipc", 10, first=1), 2),
        "any channel": (_uri("", 10), 3),
        "the whole channel": (_uri("aeron:ipc", 11), 2),
        "what only the original channel has": (_uri("alias=a", 10), 1),
        "another channel": (_uri("udp", 10), 1),
        "another stream": (_uri("ipc", 99), 1),
        "of the purged one": (_uri("ipc", 12), 1),
        "from a negative id": (_uri("ipc", 10, first=-1), 3),
        "far behind": (_uri("ipc", 10, first=99), 1),
    }
    for name, (values, events) in asked.items():
        run.ask(f"list for a URI, {name}", ListRecordingsForUri, events=events, **values)


def _none_or_fewer(run: Run) -> None:
    """Counts that ask for nothing, each in a session of its own."""
    for count in (0, -1):
        for kind, values in (
            (ListRecordings, {"from_recording_id": 0, "record_count": count}),
            (ListRecordingsForUri, _uri("ipc", 10, count=count)),
        ):
            name = f"{kind.__name__}, count {count}"
            door = run.open(f"{kind.__name__} {count}")
            run.quiet(name, door, kind(door.session_id, run.correlation_id(name), **values))
            run.ask(f"list one after {name}", ListRecording, door=door, recording_id=1)
            run.leave(door)


def _finds(run: Run) -> None:
    asked = {
        "the first": _match(0, 10, 10),
        "the active one": _match(0, 13, 10),
        "from itself": _match(3, 13, 10),
        "from behind it": _match(1, 10, 10),
        "another session": _match(0, 99, 10),
        "another stream": _match(0, 10, 11),
        "another channel": _match(0, 10, 10, "udp"),
        "any channel": _match(0, 10, 10, ""),
        "the purged one": _match(0, 12, 12),
        "behind the last": _match(4, 13, 10),
        "a negative minimum": _match(-1, 10, 10),
    }
    for name, values in asked.items():
        run.ask(f"find, {name}", FindLastMatchingRecording, **values)


def _subscriptions(run: Run) -> None:
    asked = {
        "all": (_listed(0, 10), 2),
        "one": (_listed(0, 1), 1),
        "of its stream": (_listed(0, 10, 10), 2),
        "of another stream": (_listed(0, 10, 99), 1),
        "by its channel": (_listed(0, 1, 10, "ipc"), 1),
        "by another channel": (_listed(0, 1, None, "udp"), 1),
        "behind the last": (_listed(1, 10), 1),
        "a negative index": (_listed(-1, 10), 1),
        "none": (_listed(0, 0), 1),
        "a negative count": (_listed(0, -1), 1),
    }
    for name, (values, events) in asked.items():
        run.ask(f"subscriptions, {name}", ListRecordingSubscriptions, events=events, **values)
    run.ask("a second subscription", StartRecording, gives="second", **started("aeron:ipc", 20))
    run.ask("subscriptions, of the second", ListRecordingSubscriptions, events=1, **_listed(0, 1, 20))
    run.ask("stop the second", StopRecording, channel="aeron:ipc", stream_id=20)


def _channels(run: Run) -> None:
    run.ask("channel of an unknown recording", UpdateChannel, recording_id=9, channel="aeron:ipc")
    run.ask("channel of the purged one", UpdateChannel, recording_id=2, channel="aeron:ipc")
    name = "channel that is no URI"
    run.quiet(name, run.main, UpdateChannel(run.main.session_id, run.correlation_id(name), 0, "ipc"))
    long = "aeron:udp?endpoint=10.11.12.13:4444|alias=" + "y" * 500
    for name, channel in {"a longer": long, "a shorter": "aeron:ipc"}.items():
        run.ask(f"{name} channel", UpdateChannel, recording_id=0, channel=channel)
        run.ask(f"listed with {name} channel", ListRecordings, events=4, from_recording_id=0, record_count=10)
    run.ask("channel of the active one", UpdateChannel, recording_id=3, channel="aeron:ipc?alias=b")
    run.ask("listed, the active one", ListRecording, recording_id=3)


def listing_rows(run: Run) -> None:
    """Of listings while another one goes on: its descriptors don't fit into the response stream yet."""
    run.main = run.open("main")
    for number in range(LONG_COUNT):
        run.publication(run.channel(30 + number), 10)
    run.ask("start", StartRecording, events=1 + LONG_COUNT, gives="subscription", **started(LONG, 10))
    asked: dict[type[SessionRequest], dict[str, Any]] = {
        ListRecordings: {"from_recording_id": 0, "record_count": 1},
        ListRecordingsForUri: _uri("ipc", 10),
        ListRecording: {"recording_id": 0},
        ListRecordingSubscriptions: _listed(0, 1),
        UpdateChannel: {"recording_id": 0, "channel": "aeron:ipc"},
    }
    for kind, values in asked.items():
        _busy(run, kind, values)
    run.ask("a listing after the others", ListRecording, recording_id=99)


def _busy(run: Run, kind: type[SessionRequest], values: dict[str, Any]) -> None:
    name = f"{kind.__name__} while a listing goes on"
    first = ListRecordings(run.main.session_id, run.correlation_id("first"), 0, LONG_COUNT)
    second = kind(run.main.session_id, run.correlation_id(name), **values)
    run.main.send(first)
    time.sleep(0.2)
    run.main.send(second)
    row = run.expect(name, LONG_COUNT + 1, lambda: time.sleep(0.2))
    row.request = run.shown(second)
    _keep_own(row)


def _keep_own(row: Row) -> None:
    """The answer's place among the descriptors is chance."""
    descriptors = [event for event in row.events if event[0] == "DESCRIPTOR"]
    row.events[:] = [event for event in row.events if event[0] != "DESCRIPTOR"]
    row.events.append(["DESCRIPTORS", len(descriptors)])
