"""The real Aeron's client on our archive and our media driver: it can't tell them from its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools import aeron_java

import everlog
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from tests.interop.archive import java_archive
from tests.interop.archive.java_archive import MIXED, ArchiveOptions, JavaArchive, Messages, Signal
from tests.interop.line_process import PeerError

pytestmark = pytest.mark.peer

SEGMENT = 128 << 10
CHANNEL = "aeron:ipc?term-length=64k"
LOCAL = "aeron:ipc?term-length=64k"


@pytest.fixture
def server(tmp_path: Path, driver_folder: Path) -> Iterator[ArchiveServer]:
    """Ours, with its own driver."""
    settings = ArchiveSettings(
        control_channel="aeron:udp?endpoint=localhost:0",
        segment_file_length=SEGMENT,
        low_storage_space_threshold=0,
    )
    driver = Configuration(
        dir=str(driver_folder), spies_simulate_connection=True, dir_delete_on_start=True, dir_delete_on_shutdown=True
    )
    with ArchiveServer.launch(tmp_path / "archive", settings, driver=driver) as started:
        yield started


@pytest.fixture(scope="module", params=[aeron_java.VERSION, aeron_java.OLD_VERSION])
def client_jar(request: pytest.FixtureRequest) -> Path:
    """The newest release, and an old one."""
    try:
        return java_archive.prepare(download=aeron_java.may_download(), version=request.param)
    except java_archive.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["ipc", "udp"])
def client(
    request: pytest.FixtureRequest, server: ArchiveServer, tmp_path: Path, client_jar: Path
) -> Iterator[JavaArchive]:
    """The real client, over IPC and over UDP."""
    is_udp = request.param == "udp"
    options = ArchiveOptions(
        driver_folder=Path(server.driver_folder),
        archive=server.control_channels[0] if is_udp else LOCAL,
        answers="aeron:udp?endpoint=localhost:0" if is_udp else LOCAL,
    )
    started = JavaArchive(client_jar, tmp_path / "unused", options)
    yield started
    started.kill()


def test_it_connects_and_learns_the_archives_id(server: ArchiveServer, client: JavaArchive) -> None:
    assert client.archive_id == server.archive_id
    assert client.recordings() == []


def test_what_it_records_is_replayed_to_it(client: JavaArchive, server: ArchiveServer, tmp_path: Path) -> None:
    messages = Messages(seed=1, sizes=MIXED, count=1_000)
    recorded = client.record(CHANNEL, 1010, messages, stop=False)
    positions = client.positions(recorded.recording_id)
    assert (positions.start, positions.recording, positions.stop, positions.maximum) == (
        *(0, recorded.end, -1, recorded.end),
    )
    assert client.replay(recorded.recording_id, length=recorded.end).rows() == messages.rows()
    assert client.stop(recorded.recording_id) == recorded.end
    assert client.replay(recorded.recording_id).rows() == messages.rows()
    found = client.find(recorded.recording_id)
    assert (found.start_position, found.stop_position, found.segment_file_length) == (0, recorded.end, SEGMENT)
    assert (found.original_channel, found.stream_id, found.session_id) == (
        *(client_channel(recorded.session_id), 1010, recorded.session_id),
    )
    names = [(signal.name, signal.position) for signal in client.signals]
    assert names == [("START", 0), ("STOP", recorded.end)]
    server.close()
    store = everlog.open_store(tmp_path / "archive")
    assert [len(record.payload) for record in store.read(str(recorded.recording_id))] == [
        length for length, _, _ in messages.rows()
    ]


def client_channel(session_id: int) -> str:
    """What the peer records: its channel with the session of its publication."""
    return f"{CHANNEL}|session-id={session_id}"


def test_a_part_is_replayed(client: JavaArchive) -> None:
    recorded = client.record(CHANNEL, 1010, Messages(seed=2, count=500))
    whole = client.replay(recorded.recording_id)
    begin = whole.messages[99].end_position
    part = client.replay(recorded.recording_id, begin, whole.messages[299].end_position - begin)
    assert part.rows() == whole.rows()[100:300]


def test_it_extends(client: JavaArchive) -> None:
    first, second = Messages(seed=3, count=300), Messages(seed=3, first=300, count=300)
    recorded = client.record(CHANNEL, 1010, first)
    again = client.extend(recorded.recording_id, second)
    assert (again.recording_id, again.begin) == (recorded.recording_id, recorded.end)
    assert client.replay(recorded.recording_id).rows() == [*first.rows(), *second.rows()]
    assert [signal.name for signal in client.signals] == ["START", "STOP", "EXTEND", "STOP"]


def test_it_truncates_and_purges(client: JavaArchive, tmp_path: Path) -> None:
    recorded = client.record(CHANNEL, 1010, Messages(seed=4, sizes=(1_000,), count=600))
    recording_id = recorded.recording_id
    assert client.truncate(recording_id, 4 * SEGMENT) == 1
    assert client.find(recording_id).stop_position == 4 * SEGMENT
    client.detach(recording_id, SEGMENT)
    assert client.attach(recording_id) == 1
    client.detach(recording_id, 2 * SEGMENT)
    assert client.delete_detached(recording_id) == 2
    assert client.purge_segments(recording_id, 3 * SEGMENT) == 1
    found = client.find(recording_id)
    assert (found.start_position, found.stop_position) == (3 * SEGMENT, 4 * SEGMENT)
    assert len([*(tmp_path / "archive").glob(f"{recording_id}-*.rec")]) == 1
    assert client.purge(recording_id) == 1
    assert client.recordings() == []
    assert [*(tmp_path / "archive").glob("*.rec")] == []


def test_it_migrates(client: JavaArchive) -> None:
    channel = f"{CHANNEL}|init-term-id=7|term-id={{}}|term-offset=0"
    first, second = Messages(seed=5, sizes=(1_000,), count=500), Messages(seed=6, sizes=(1_000,), count=100)
    source = client.record(channel.format(7), 1010, first)
    client.truncate(source.recording_id, 3 * SEGMENT)
    kept = client.replay(source.recording_id).rows()
    target = client.record(channel.format(7 + 6), 1010, second)
    assert target.begin == 3 * SEGMENT
    assert client.migrate_segments(source.recording_id, target.recording_id) == 3
    assert client.find(target.recording_id).start_position == 0
    assert client.replay(target.recording_id).rows() == [*kept, *second.rows()]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda client: client.positions(77), "unknown recording id: 77"),
        (lambda client: client.truncate(77, 0), "unknown recording id: 77"),
        (lambda client: client.truncate(0, 31), "invalid position 31: start=0"),
        (lambda client: client.detach(0, 100), "invalid segment start: newStartPosition=100"),
        (lambda client: client.replay(0, position=33), "requested replay start position=33 is not a multiple"),
    ],
)
def test_refusals_have_the_texts_it_knows(client: JavaArchive, act: Callable[[JavaArchive], object], text: str) -> None:
    client.record(CHANNEL, 1010, Messages(seed=7, count=10))
    with pytest.raises(PeerError, match=text):
        act(client)


def test_signals_of_deletions_come(client: JavaArchive) -> None:
    recorded = client.record(CHANNEL, 1010, Messages(seed=8, count=10))
    client.signals.clear()
    client.purge(recorded.recording_id)
    assert client.signals == [Signal("DELETE", recorded.recording_id, -1)]
