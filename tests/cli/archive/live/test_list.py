"""everlog archive DIR list, and how each verb reaches a running archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.cli.archive.running import CREDENTIALS_VARIABLE
from tests.aeron.archive.service.served import CHANNEL
from tests.cli.archive.served_archive import OPERATOR, SECURED_STREAM, VIEWER, Served
from tests.cli.conftest import Everlog


@pytest.mark.parametrize("kind", ["folder", "channel"])
def test_active_and_stopped_recordings_are_listed(archive: Served, everlog: Everlog, kind: str) -> None:
    stream_id = archive.stream()
    active, publication = archive.begin(stream_id, [b"one", b"two"])
    stopped = archive.recorded([b"three"])
    try:
        found = everlog("archive", *archive.target(kind), "list", *archive.options(kind))
        assert (found.code, found.stderr) == (0, "")
        lines = {int(line.split()[0]): line for line in found.text.splitlines()}
        session_id = publication.session_id
        assert lines[active] == (
            f"{active} recording 0..128 stream {stream_id} session {session_id} {CHANNEL}"
            f"|session-id={session_id} from aeron:ipc"
        )
        assert lines[stopped].startswith(f"{stopped} stopped 0..64 stream ")
        chosen = ("--stream", stream_id, "--channel", "ipc", "--json")
        (row,) = everlog("archive", *archive.target(kind), "list", *archive.options(kind), *chosen).rows
        assert (row["recording_id"], row["active"], row["recorded_position"], row["stop_position"]) == (
            *(active, True, 128, None),
        )
        assert everlog("archive", *archive.target(kind), "list", *archive.options(kind), "--channel", "x").text == ""
    finally:
        archive.end(active, publication)


def test_what_is_being_recorded_is_listed_by_its_subscription(archive: Served, everlog: Everlog) -> None:
    stream_id = archive.stream()
    subscription_id = archive.client.start_recording(CHANNEL, stream_id)
    found = everlog("archive", archive.folder, "list", "--subscriptions", "--stream", stream_id)
    assert found.text == f"{subscription_id} stream {stream_id} aeron:ipc\n"
    (row,) = everlog("archive", archive.folder, "list", "--subscriptions", "--stream", stream_id, "--json").rows
    assert row == {"subscription_id": subscription_id, "stream_id": stream_id, "stripped_channel": "aeron:ipc"}
    archive.client.stop_recording_by_subscription(subscription_id)
    assert everlog("archive", archive.folder, "list", "--subscriptions", "--stream", stream_id).text == ""


def test_an_archive_that_does_not_run_is_one_line_and_exit_code_2(everlog: Everlog, tmp_path: Path) -> None:
    archives.create(tmp_path / "closed").close()
    found = everlog("archive", tmp_path / "closed", "list")
    assert (found.code, found.text) == (2, "")
    assert found.stderr == f"everlog: no archive is running on {tmp_path}/closed (everlog run archive starts one)\n"
    with archives.open_archive(tmp_path / "closed"):
        found = everlog("archive", tmp_path / "closed", "list")
        assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
        assert "serves no clients: a program has opened its folder" in found.stderr
    found = everlog("archive", tmp_path, "list")
    assert (found.code, found.stderr.count("\n")) == (2, 1)
    assert "no Aeron archive here" in found.stderr


def test_an_archive_on_another_host_needs_a_channel_for_its_answers(archive: Served, everlog: Everlog) -> None:
    found = everlog(
        "archive", "aeron:udp?endpoint=192.0.2.1:8010", "truncate", 0, 0, "--aeron-dir", archive.driver_folder
    )
    assert (found.code, found.stderr.count("\n")) == (2, 1)
    assert "--response-channel aeron:udp?endpoint=THIS_HOST:0" in found.stderr


@pytest.mark.parametrize("channel", ["aeron:", "aeron:tcp?endpoint=x:1", "aeron:udp"])
def test_a_channel_that_is_none_is_one_line_and_exit_code_2(archive: Served, everlog: Everlog, channel: str) -> None:
    found = everlog("archive", channel, "list", "--aeron-dir", archive.driver_folder)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert "internal error" not in found.stderr


# Credentials


def test_credentials_come_from_the_environment_or_a_file(
    archive: Served, everlog: Everlog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = everlog("archive", archive.secured, "list")
    assert (refused.code, refused.stderr) == (2, "everlog: authentication rejected\n")
    monkeypatch.setenv(CREDENTIALS_VARIABLE, VIEWER)
    assert everlog("archive", archive.secured, "list").code == 0
    for verb in (["start", CHANNEL, 1], ["purge-recording", 0], ["stop", "--recording", 0]):
        found = everlog("archive", archive.secured, *verb)
        assert (found.code, found.stderr) == (2, "everlog: unauthorised action\n")
    # A file wins over the environment, for each verb; and by the channel.
    path = tmp_path / "credentials"
    path.write_text(f"{OPERATOR}\n")
    given = ("--credentials-file", path)
    found = everlog("archive", archive.secured, "start", CHANNEL, 1, *given)
    assert found.code == 0
    place = ("--aeron-dir", archive.driver_folder, "--control-stream", SECURED_STREAM)
    subscription_id = found.text.split()[1]
    found = everlog("archive", CHANNEL, "stop", "--subscription", subscription_id, *given, *place)
    assert (found.code, found.text) == (0, "stopped\n")
    found = everlog("archive", archive.secured, "purge-recording", 7, *given)
    assert (found.code, found.stderr) == (2, "everlog: unknown recording id: 7\n")
    path.write_text("wrong")
    found = everlog("archive", archive.secured, "list", *given)
    assert (found.code, found.stderr) == (2, "everlog: authentication rejected\n")
    found = everlog("archive", archive.secured, "list", "--credentials-file", tmp_path / "none")
    assert (found.code, found.stderr.count("\n")) == (2, 1)
