"""Our client of an archive on the real one: every request, signals, replays, many requests in flight, and what happens
when the archive goes away."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.client import (
    AeronArchive,
    ArchiveError,
    ArchiveTimeout,
    ClientState,
    Credentials,
    ErrorCode,
    RecordingSignal,
    ReplayParams,
    SessionLost,
)
from everlog.aeron.archive.recording.events import RecordingProgress, RecordingStarted, RecordingStopped
from tests.aeron.archive.client.scenarios import (
    CHANNEL,
    KILOBYTE,
    NEW,
    WAIT_S,
    ClientScenarios,
    payloads_of,
    recorded,
    until,
)
from tests.interop.archive.java_archive import (
    LOCAL_CONTROL,
    LOCAL_CONTROL_STREAM,
    MIXED,
    ArchiveOptions,
    JavaArchive,
    Messages,
)

pytestmark = pytest.mark.peer

Start = Callable[..., JavaArchive]


def local(peer: JavaArchive, **settings: Any) -> dict[str, Any]:
    """The options of a client on the archive's own driver."""
    place = {
        "control_request_channel": LOCAL_CONTROL,
        "control_request_stream_id": LOCAL_CONTROL_STREAM,
        "control_response_channel": LOCAL_CONTROL,
        "aeron_directory_name": peer.driver_folder,
        "client_name": "everlog tests",
    }
    return place | settings


@pytest.fixture
def peer(start_archive: Start, tmp_path: Path) -> JavaArchive:
    return start_archive(tmp_path / "archive")


@pytest.fixture
def archive(peer: JavaArchive) -> Iterator[AeronArchive]:
    with AeronArchive.connect(**local(peer)) as client:
        yield client


def test_a_session_opens_and_tells_the_archives_id(peer: JavaArchive, archive: AeronArchive) -> None:
    assert archive.archive_id == peer.archive_id
    assert archive.state is ClientState.CONNECTED
    archive.close()
    assert archive.state is ClientState.CLOSED


class TestRequests(ClientScenarios):
    """On the real archive."""


def test_a_recording_is_listed_and_replayed_as_it_was_published(peer: JavaArchive, archive: AeronArchive) -> None:
    messages = Messages(seed=3, sizes=MIXED, count=200)
    made = peer.record(CHANNEL, 10, messages)
    (found,) = archive.list_recordings()
    theirs = peer.find(made.recording_id)
    assert all(getattr(found, name) == getattr(theirs, name) for name in theirs.__dataclass_fields__)
    assert (archive.start_position(0), archive.stop_position(0)) == (made.begin, made.end)
    assert archive.recording_position(0) is None
    assert archive.max_recorded_position(0) == made.end
    with archive.replay_messages(0, "aeron:ipc", 4000) as replay:
        assert [(payload, header.reserved_value) for payload, header in replay] == list(messages)
    assert peer.errors() == []


def test_a_replay_in_batches_has_the_same_messages(peer: JavaArchive, archive: AeronArchive) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    messages = Messages(seed=4, sizes=MIXED, count=300)
    peer.record(CHANNEL, 10, messages)
    found: list[bytes] = []
    with archive.replay_messages(0, "aeron:ipc", 4000) as replay:
        for batch in replay.batches():
            found += pyarrow.record_batch(batch).column("payload").to_pylist()
    assert found == [payload for payload, _ in messages]


def test_a_part_of_a_recording_is_replayed(peer: JavaArchive, archive: AeronArchive) -> None:
    recording_id = recorded(archive, 11, [bytes([number]) * KILOBYTE for number in range(20)])
    params = ReplayParams(position=5 * 1024, length=3 * 1024, file_io_max_length=64 << 10)
    assert payloads_of(archive, recording_id, params) == [bytes([number]) * KILOBYTE for number in (5, 6, 7)]


def test_a_replay_that_nobody_receives_is_an_error_for_nobody(peer: JavaArchive) -> None:
    errors: list[Any] = []
    with AeronArchive.connect(**local(peer, on_error=errors.append)) as archive:
        recording_id = recorded(archive, 14, [b"x"])
        archive.start_replay(recording_id, "aeron:ipc", 4001)
        until(lambda: bool(errors), archive)
    assert isinstance(errors[0].error, ArchiveError)


# Over the network


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


@contextmanager
def networked(start_archive: Start, folder: Path, driver: Any, **settings: Any) -> Iterator[tuple[JavaArchive, Any]]:
    """An archive that serves UDP, and the options of a client on a driver of its own."""
    control = f"aeron:udp?endpoint=localhost:{free_port()}"
    peer = start_archive(folder, ArchiveOptions(control_channel=control, **settings))
    options = {
        "control_request_channel": control,
        "control_response_channel": "aeron:udp?endpoint=localhost:0",
        "aeron_directory_name": driver.dir,
    }
    yield peer, options


def test_a_client_on_another_driver_records_and_replays(
    start_archive: Start, start_our_driver: Callable[..., Any], tmp_path: Path
) -> None:
    messages = Messages(seed=5, sizes=MIXED, count=100)
    with networked(start_archive, tmp_path / "archive", start_our_driver()) as (peer, options):
        peer.record(CHANNEL, 10, messages)
        with AeronArchive.connect(**options) as archive:
            assert archive.archive_id == peer.archive_id
            with archive.replay_messages(0, "aeron:udp?endpoint=localhost:" + str(free_port()), 4000) as replay:
                assert [payload for payload, _ in replay] == [payload for payload, _ in messages]


def test_requests_and_replays_go_over_response_channels(
    start_archive: Start, start_our_driver: Callable[..., Any], tmp_path: Path
) -> None:
    messages = Messages(seed=6, sizes=MIXED, count=50)
    driver = start_our_driver()
    with networked(start_archive, tmp_path / "archive", driver) as (peer, options):
        peer.record(CHANNEL, 10, messages)
        with AeronArchive.connect(**options) as archive:
            is_old = archive.archive_version < NEW
        responses = f"aeron:udp?control-mode=response|control=localhost:{free_port()}"
        if is_old:  # it knows nothing of response channels: its answers don't arrive
            with pytest.raises(ArchiveTimeout):
                AeronArchive.connect(**options | {"control_response_channel": responses, "message_timeout_ms": 2_000})
            return
        with AeronArchive.connect(**options | {"control_response_channel": responses}) as archive:
            assert archive.stop_position(0) == peer.positions(0).stop
            place = f"aeron:udp?control-mode=response|control=localhost:{free_port()}"
            with archive.replay_messages(0, place, 4000) as replay:
                assert [payload for payload, _ in replay] == [payload for payload, _ in messages]


def test_a_challenge_is_answered(start_archive: Start, tmp_path: Path) -> None:
    peer = start_archive(tmp_path / "archive", ArchiveOptions(password="tell-nobody"))
    asked: list[bytes] = []

    def answer(challenge: bytes) -> bytes:
        asked.append(challenge)
        return b"tell-nobody"

    with AeronArchive.connect(**local(peer, credentials_supplier=Credentials(b"first", answer))) as archive:
        assert archive.archive_id == peer.archive_id
        assert "tell-nobody" not in f"{archive.options!r} {archive!r}"
    assert asked == [b"who are you?"]
    wrong = Credentials(b"first", lambda _: b"wrong")
    with pytest.raises(ArchiveError) as refused:
        AeronArchive.connect(**local(peer, credentials_supplier=wrong))
    assert refused.value.code is ErrorCode.AUTHENTICATION_REJECTED


def test_recording_events_are_received(start_archive: Start, tmp_path: Path) -> None:
    peer = start_archive(tmp_path / "archive", ArchiveOptions(events_channel="aeron:ipc"))
    with (
        AeronArchive.connect(**local(peer, recording_events_channel="aeron:ipc")) as archive,
        archive.recording_events() as events,
    ):
        until(lambda: events.subscription.is_connected)
        recording_id = recorded(archive, 26, [b"x" * KILOBYTE] * 3)
        seen = [events.take(WAIT_S)]
        while not isinstance(seen[-1], RecordingStopped):
            assert seen[-1] is not None
            seen.append(events.take(WAIT_S))
    first, *progress, last = seen
    assert isinstance(first, RecordingStarted)
    assert (first.recording_id, first.stream_id) == (recording_id, 26)
    assert all(isinstance(each, RecordingProgress) for each in progress)
    assert last == RecordingStopped(recording_id, 0, 3 * 1024)


# When the archive goes away


def test_a_lost_session_fails_requests_and_is_opened_again_if_wanted(
    start_archive: Start, start_our_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = start_our_driver(client_liveness_timeout_ns=2_000_000_000)
    options = ArchiveOptions(driver_folder=Path(driver.dir), forgets_owner=True)
    peer = start_archive(tmp_path / "archive", options)
    with (
        AeronArchive.connect(**local(peer, reconnect=True, message_timeout_ms=20_000)) as archive,
        AeronArchive.connect(**local(peer, control_response_stream_id=31)) as plain,
    ):
        first = archive.control_session_id
        assert list(archive.list_recordings()) == []
        peer.kill()
        with pytest.raises(SessionLost) as lost:
            archive.list_recording(0)
        assert lost.value.was_sent
        until(lambda: plain.poll_for_error_response() is not None)
        with pytest.raises(SessionLost, match="nothing was done"):
            plain.list_recording(0)
        (record,) = archive.lost_sessions
        assert record.session_id == first
        assert [each.name for each in record.answered] == ["list-recordings"]
        assert [(each.name, each.outcome) for each in record.unanswered] == [("list-recording", "unanswered")]
        start_archive(tmp_path / "archive", options)
        assert list(archive.list_recordings()) == []
        assert archive.control_session_id != first


def test_a_background_thread_keeps_a_session_alive(peer: JavaArchive) -> None:
    signals: list[Any] = []
    settings = local(peer, poll_interval_s=0.01, on_recording_signal=signals.append)
    with AeronArchive.connect(**settings) as archive:
        publication = archive.add_recorded_exclusive_publication(CHANNEL, 27)
        until(lambda: bool(signals))
        publication.close()
        until(lambda: len(signals) == 2)
        time.sleep(2.5)  # pings come each second
        assert archive.state is ClientState.CONNECTED
    assert [each.signal for each in signals] == [RecordingSignal.START, RecordingSignal.STOP]


def test_connecting_to_nothing_times_out(start_our_driver: Callable[..., Any]) -> None:
    driver = start_our_driver()
    with pytest.raises(ArchiveTimeout, match="AWAIT_PUBLICATION_CONNECTED"):
        AeronArchive.connect(
            control_request_channel="aeron:ipc",
            control_response_channel="aeron:ipc",
            aeron_directory_name=driver.dir,
            message_timeout_ms=300,
        )
