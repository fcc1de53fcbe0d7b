"""everlog archive DIR replay."""

from __future__ import annotations

import threading
import time
from base64 import b64decode

import pytest

from tests.aeron.archive.protocol.requests.table import free_control_channel
from tests.cli.archive.served_archive import Served
from tests.cli.conftest import Everlog

PAYLOADS = [b"one", b"", b"\xff\x00three\n", b"x" * 5_000]


@pytest.fixture(scope="module")
def recording_id(archive: Served) -> int:
    return archive.recorded(PAYLOADS)


@pytest.mark.parametrize("kind", ["folder", "channel"])
def test_each_message_is_a_line(archive: Served, everlog: Everlog, recording_id: int, kind: str) -> None:
    found = everlog("archive", *archive.target(kind), "replay", recording_id, *archive.options(kind))
    assert found.code == 0
    assert found.stdout == b"".join(payload + b"\n" for payload in PAYLOADS)
    assert found.stderr == "everlog: 4 messages printed\n"


def test_raw_prints_the_bare_bytes_and_a_delimiter_between(
    archive: Served, everlog: Everlog, recording_id: int
) -> None:
    assert everlog("archive", archive.folder, "replay", recording_id, "--raw").stdout == b"".join(PAYLOADS)
    found = everlog("archive", archive.folder, "replay", recording_id, "--raw", "--delimiter", r"\0|")
    assert found.stdout == b"".join(payload + b"\0|" for payload in PAYLOADS)


def test_json_has_the_payload_and_the_place_of_each(archive: Served, everlog: Everlog, recording_id: int) -> None:
    rows = everlog("archive", archive.folder, "replay", recording_id, "--json").rows
    assert [b64decode(row["payload"]) for row in rows] == PAYLOADS
    assert [row["reserved_value"] for row in rows] == [1, 2, 3, 4]
    assert [row["end_position"] for row in rows][:3] == [64, 96, 160]


def test_a_part_is_replayed_from_a_frame_for_a_length_or_a_count(
    archive: Served, everlog: Everlog, recording_id: int
) -> None:
    def replayed(*given: object) -> bytes:
        found = everlog("archive", archive.folder, "replay", recording_id, *given)
        assert found.code == 0
        return found.stdout

    assert replayed("--from", 64, "--length", 96) == b"\n" + PAYLOADS[2] + b"\n"
    assert replayed("--from", 96, "--count", 1) == PAYLOADS[2] + b"\n"
    assert replayed("--length", 32) == b"one\n"  # a frame that begins before the end is sent whole
    assert replayed("--count", 0) == b""
    assert replayed("--count", 2) == b"one\n\n"
    channel = free_control_channel()
    assert replayed("--replay-channel", channel, "--count", 1) == b"one\n"


@pytest.mark.parametrize("session", ["", "|session-id=-77"])
def test_a_replay_comes_to_a_port_that_the_driver_chooses(
    archive: Served, everlog: Everlog, recording_id: int, session: str
) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:0{session}"
    found = everlog("archive", archive.folder, "replay", recording_id, "--replay-channel", channel, "--raw")
    assert (found.code, found.stderr) == (0, "everlog: 4 messages printed\n")
    assert found.stdout == b"".join(PAYLOADS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--from", "7"], "is not a multiple of FRAME_ALIGNMENT"),
        (["--from", "32"], "does not point to a valid frame"),
        (["--from", "1048576"], "position"),
        (["--from", "-1"], "--from"),
        (["--json", "--raw"], "exclude each other"),
        (["--delimiter", "x"], "--delimiter needs --raw"),
        (["--pace", "1"], "--pace and --timestamp-from need each other"),
        (["--follow", "--length", "1"], "--follow and --length exclude each other"),
        (["--pace", "0", "--timestamp-from", "reserved_value:ns"], "is not a number above 0"),
        (["--replay-channel", "aeron:tcp"], "channel media must be ipc or udp, not 'tcp'"),
    ],
)
def test_what_can_not_be_replayed_is_one_line_and_exit_code_2(
    archive: Served, everlog: Everlog, recording_id: int, given: list[str], said: str
) -> None:
    found = everlog("archive", archive.folder, "replay", recording_id, *given)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert said in found.stderr
    assert "internal error" not in found.stderr


def test_a_recording_without_messages_has_none_to_replay(archive: Served, everlog: Everlog) -> None:
    empty = archive.recorded([])
    for options in ([], ["--follow"], ["--json"]):
        found = everlog("archive", archive.folder, "replay", empty, *options)
        assert (found.code, found.stdout, found.stderr) == (0, b"", "everlog: 0 messages printed\n")
    active, publication = archive.begin(archive.stream(), [])
    found = everlog("archive", archive.folder, "replay", active)
    assert (found.code, found.stdout, found.stderr) == (0, b"", "everlog: 0 messages printed\n")
    archive.end(active, publication)


def test_what_is_recorded_by_now_is_replayed_of_an_active_recording(archive: Served, everlog: Everlog) -> None:
    active, publication = archive.begin(archive.stream(), [b"one", b"two"])
    found = everlog("archive", archive.folder, "replay", active)
    assert (found.code, found.stdout) == (0, b"one\ntwo\n")
    archive.end(active, publication)


def test_a_recording_is_followed_until_it_stops(archive: Served, everlog: Everlog) -> None:
    active, publication = archive.begin(archive.stream(), [b"one"])

    def go_on() -> None:
        time.sleep(0.2)
        archive.publish(active, publication, [b"two", b"three"])
        archive.end(active, publication)

    later = threading.Thread(target=go_on)
    later.start()
    found = everlog("archive", archive.folder, "replay", active, "--follow")
    later.join()
    assert (found.code, found.stdout) == (0, b"one\ntwo\nthree\n")
    assert found.stderr == "everlog: 3 messages printed\n"


def test_messages_come_as_far_apart_as_they_were_recorded_times_a_factor(archive: Served, everlog: Everlog) -> None:
    paced = archive.recorded([b"%d" % number for number in range(400)])  # a millisecond apart: their numbers
    begun = time.monotonic()
    given = ("--pace", "2", "--timestamp-from", "reserved_value:ms")
    found = everlog("archive", archive.folder, "replay", paced, *given)
    taken = time.monotonic() - begun
    assert len(found.stdout.splitlines()) == 400
    assert 0.199 <= taken < 5
