"""What an archive shows to those who watch it, ours beside Aeron's: counters, and the error log of its mark file."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everlog.aeron.archive.client import AeronArchive, SourceLocation
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.settings.properties import load
from everlog.aeron.layouts import SbeMessageHeader
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.format.counters import Counter
from everlog.cli.app import run
from tests.aeron.archive.protocol.requests import table
from tests.interop.archive.java_archive import LOCAL_CONTROL_STREAM, ArchiveOptions, JavaArchive, archive_tool

pytestmark = pytest.mark.peer

CHANNEL = "aeron:ipc?term-length=64k|session-id=77"
STREAM = 1010
StartArchive = Callable[..., JavaArchive]
PAYLOAD = b"x" * 1_000
MESSAGES = 100
CONTROL_SESSION = 113
CONTROL_SESSIONS, READ_BYTES = 102, 109
OF_TIMES = (103, 104, 105, 107, 108, 110)


@pytest.fixture
def ours(tmp_path: Path, start_our_driver: Callable[..., MediaDriver]) -> Iterator[EmbeddedArchive]:
    properties = table.ARCHIVE_PROPERTIES | {"aeron.archive.control.channel": table.free_control_channel()}
    loaded = load(given=[f"{name}={value}" for name, value in properties.items()])
    driver = start_our_driver(spies_simulate_connection=True)
    with EmbeddedArchive(tmp_path / "ours", loaded.settings, driver_folder=driver.dir) as running:
        yield running


def watched(driver_folder: Path, control_stream_id: int) -> list[Counter]:
    """The archive's counters while it records a stream, and replays a recording, and has this client."""
    with (
        AeronArchive.connect(
            control_request_channel=table.LOCAL_CONTROL,
            control_request_stream_id=control_stream_id,
            control_response_channel=table.LOCAL_CONTROL,
            aeron_directory_name=driver_folder,
            client_name="watcher",
        ) as client,
        Aeron.connect(driver_folder) as aeron,
    ):
        client.start_recording(CHANNEL, STREAM, SourceLocation.LOCAL)
        publication = aeron.add_exclusive_publication(CHANNEL, STREAM)
        replayed = aeron.add_subscription("aeron:ipc", STREAM + 1)
        assert aeron.wait_until(lambda: publication.is_connected)
        for _ in range(MESSAGES):
            while publication.offer(PAYLOAD) < 0:
                time.sleep(0.001)
        deadline = time.monotonic() + 10
        while client.max_recorded_position(0) < publication.position:
            assert time.monotonic() < deadline
        client.start_replay(0, "aeron:ipc", STREAM + 1)
        read: list[bytes] = []
        while len(read) < MESSAGES:
            assert time.monotonic() < deadline
            replayed.poll(lambda data, _: read.append(bytes(data)))
        time.sleep(0.1)  # the counters follow at the end of a cycle
        found = (each for each in aeron.counters if 100 <= each.type_id <= CONTROL_SESSION)
        return sorted(
            (each for each in found if each.type_id != CONTROL_SESSION or "watcher" in each.label),
            key=lambda each: each.type_id,
        )


def masked(counter: Counter, archive_id: int) -> tuple[int, str, bytes]:
    """Type, label without numbers, key without what is random."""
    label = re.sub(r"-?\d+", "N", re.sub(r"commit=\w+", "commit=COMMIT", counter.label))
    label = re.sub(r"(version=)[\w.-]+", r"\1VERSION", label)
    label = re.sub(r"name=\S+( \S+)*? version", "name=NAME version", label)
    key = counter.key.replace(archive_id.to_bytes(8, "little", signed=True), b"archive ")
    if counter.type_id == CONTROL_SESSION:
        key = key[:8] + bytes(8) + key[16:]  # the session's id
    return counter.type_id, label, key


def test_counters_have_the_types_keys_and_labels_of_aerons(
    ours: EmbeddedArchive, start_our_driver: Callable[..., MediaDriver], start_archive: StartArchive, tmp_path: Path
) -> None:
    driver = start_our_driver(spies_simulate_connection=True)
    java = start_archive(tmp_path / "java", ArchiveOptions(driver_folder=Path(driver.dir)))
    theirs = watched(java.driver_folder, LOCAL_CONTROL_STREAM)
    found = watched(ours.driver_folder, table.LOCAL_CONTROL_STREAM)
    assert [masked(each, ours.archive_id) for each in found] == [masked(each, java.archive_id) for each in theirs]
    assert [counter.type_id for counter in theirs] == [*range(100, 114)]
    # What does not depend on the time is counted alike.
    values, of_java = ({each.type_id: each.value for each in counters} for counters in (found, theirs))
    alike = {*values} - {*OF_TIMES, CONTROL_SESSIONS, CONTROL_SESSION, READ_BYTES}
    assert {key: values[key] for key in alike} == {key: of_java[key] for key in alike}
    assert (values[CONTROL_SESSIONS], of_java[CONTROL_SESSIONS]) == (1, 2)  # Aeron's has a client of its own
    for counters in (values, of_java):
        assert counters[READ_BYTES] >= counters[100]  # the beginning of a frame that did not fit is read again
        assert 0 < counters[105] <= counters[107]
        assert 0 < counters[108] <= counters[110]
    session = found[-1]
    assert session.value == struct.unpack_from("<q", session.key, 8)[0]


def test_errors_of_the_service_are_shown_by_both_tools(
    ours: EmbeddedArchive, aeron_jar: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Aeron.connect(ours.driver_folder) as aeron:
        control = aeron.add_publication(table.LOCAL_CONTROL, table.LOCAL_CONTROL_STREAM)
        assert aeron.wait_until(lambda: control.is_connected)
        wrong = SbeMessageHeader.pack(block_length=0, template_id=2, schema_id=99, version=1)
        for _ in range(3):
            assert control.offer(wrong) > 0
        errors = aeron.counters.find_by_key(101, table.ARCHIVE_ID.to_bytes(8, "little"))
        assert errors is not None
        assert aeron.wait_until(lambda: aeron.counters.value(errors) == 3)
        said = archive_tool(aeron_jar, ours.folder, "errors")
        assert run(["archive", str(ours.folder), "errors"]) == 0
    printed = capsys.readouterr().out
    for text in (said.stdout, printed):
        assert "3 observations from" in text
        assert "schema id 99" in text
    assert said.exit_code == 0
