"""The maintenance verbs of everlog archive DIR while an archive is running there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.channel_uri import ChannelUri
from everlog.cli.archive.running import CREDENTIALS_VARIABLE
from tests.aeron.archive.service.served import CHANNEL, until
from tests.cli.archive.served_archive import OPERATOR, Served, served
from tests.cli.conftest import Everlog

SEGMENT = 128 << 10
FRAME = 1 << 10
PAYLOAD = b"x" * (FRAME - 32)
COUNT = 3 * SEGMENT // FRAME - 1
"""Messages of three segments, the last of which has room for one more."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


def segments(archive: Served, recording_id: int) -> list[int]:
    """The positions at which its files begin."""
    return sorted(int(path.stem.split("-")[1]) for path in archive.folder.glob(f"{recording_id}-*.rec"))


@pytest.mark.parametrize("kind", ["folder", pytest.param("channel", marks=pytest.mark.long)])
def test_segments_are_detached_attached_and_deleted(archive: Served, everlog: Everlog, kind: str) -> None:
    recording_id = archive.recorded([PAYLOAD] * COUNT)

    def done(verb: str, *given: object) -> str:
        target, options = archive.target(kind), archive.options(kind)
        found = everlog("archive", *target, verb, recording_id, *given, *options)
        assert (found.code, found.stderr) == (0, "")
        return found.text

    assert segments(archive, recording_id) == [0, SEGMENT, 2 * SEGMENT]
    assert done("detach", 2 * SEGMENT) == f"recording {recording_id}: starts at {2 * SEGMENT}\n"
    assert archive.client.start_position(recording_id) == 2 * SEGMENT
    assert done("attach") == f"recording {recording_id}: 2 files attached\n"
    assert archive.client.start_position(recording_id) == 0
    done("detach", SEGMENT)
    assert done("delete-detached-segments") == f"recording {recording_id}: 1 file deleted\n"
    assert segments(archive, recording_id) == [SEGMENT, 2 * SEGMENT]
    cut = SEGMENT + 7 * FRAME
    assert done("truncate", cut) == f"recording {recording_id}: truncated to {cut}, 1 file deleted\n"
    assert archive.client.stop_position(recording_id) == cut
    assert everlog("archive", archive.folder, "replay", recording_id, "--raw").stdout == PAYLOAD * 7
    assert done("purge-recording") == f"recording {recording_id}: deleted, with 1 file\n"
    assert segments(archive, recording_id) == []
    assert archive.client.list_recording(recording_id) is None


def test_json_is_an_object_for_each_recording(archive: Served, everlog: Everlog) -> None:
    recording_id = archive.recorded([PAYLOAD] * COUNT)
    found = everlog("archive", archive.folder, "detach", recording_id, SEGMENT, "--json")
    assert found.rows == [
        {"verb": "detach", "recording_id": recording_id, "start_position": SEGMENT, "dry_run": False},
    ]


def test_segments_are_moved_to_the_recording_that_goes_on_where_they_end(archive: Served, everlog: Everlog) -> None:
    first = archive.recorded([PAYLOAD] * (SEGMENT // FRAME))
    stopped = archive.client.list_recording(first)
    assert stopped is not None
    term_length = stopped.term_buffer_length
    place = {
        "init-term-id": str(stopped.initial_term_id),
        "term-id": str(stopped.initial_term_id + SEGMENT // term_length),
        "term-offset": "0",
        "mtu": str(stopped.mtu_length),
    }
    channel = str(ChannelUri.parse(CHANNEL).with_params(place))
    publication = archive.client.add_recorded_exclusive_publication(channel, stopped.stream_id)
    until(lambda: archive.recording_of(stopped.stream_id) != first)
    second = archive.recording_of(stopped.stream_id)
    archive.publish(second, publication, [PAYLOAD] * 3)
    archive.end(second, publication)
    found = everlog("archive", archive.folder, "migrate-segments", first, second)
    assert (found.code, found.stderr) == (0, "")
    assert found.text == f"recording {first}: 1 file moved to recording {second}\n"
    assert segments(archive, second) == [0, SEGMENT]
    assert archive.client.start_position(second) == 0
    assert everlog("archive", archive.folder, "replay", second, "--raw").stdout == PAYLOAD * (SEGMENT // FRAME + 3)


def test_what_the_archive_refuses_is_one_line_in_its_words(archive: Served, everlog: Everlog) -> None:
    active, publication = archive.begin(archive.stream(), [PAYLOAD])
    for verb, given, said in (
        ("truncate", [0], "cannot truncate active recording"),
        ("purge-recording", [], "cannot purge active recording"),
        ("detach", [7], "invalid segment start: newStartPosition=7"),
    ):
        found = everlog("archive", archive.folder, verb, active, *given)
        assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
        assert found.stderr.startswith(f"everlog: {said}"), found.stderr
    found = everlog("archive", archive.folder, "purge-recording", 9_999)
    assert (found.code, found.stderr) == (2, "everlog: unknown recording id: 9999\n")
    archive.end(active, publication)


def test_a_dry_run_needs_the_folder_and_changes_nothing(archive: Served, everlog: Everlog) -> None:
    recording_id = archive.recorded([PAYLOAD] * COUNT)
    found = everlog("archive", archive.folder, "truncate", recording_id, FRAME, "--dry-run")
    assert found.code == 0
    assert "nothing was changed" in found.text
    assert archive.client.stop_position(recording_id) == COUNT * FRAME
    given = ("truncate", recording_id, FRAME, "--dry-run", *archive.options("channel"))
    found = everlog("archive", archive.channel, *given)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert "--dry-run needs the archive's folder" in found.stderr


def test_verbs_that_no_request_can_do_refuse_while_the_archive_runs(archive: Served, everlog: Everlog) -> None:
    recording_id = archive.recorded([PAYLOAD])
    for given in (["purge", recording_id, "--keep-bytes", 0], ["mark-invalid", recording_id], ["compact", "--yes"]):
        found = everlog("archive", archive.folder, *given)
        assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert archive.client.stop_position(recording_id) == FRAME


def test_credentials_are_those_of_all_verbs(
    archive: Served, everlog: Everlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = everlog("archive", archive.secured, "truncate", 0, 0)
    assert (found.code, found.stderr) == (2, "everlog: authentication rejected\n")
    path = tmp_path / "credentials"
    path.write_text(OPERATOR)
    found = everlog("archive", archive.secured, "truncate", 0, 0, "--credentials-file", path)
    assert (found.code, found.stderr) == (2, "everlog: unknown recording id: 0\n")
    monkeypatch.setenv(CREDENTIALS_VARIABLE, OPERATOR)
    assert everlog("archive", archive.secured, "attach", 0).stderr == "everlog: unknown recording id: 0\n"


def test_files_that_could_not_be_deleted_are_told_of(
    archive: Served, everlog: Everlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording_id = archive.recorded([PAYLOAD] * COUNT)
    remove = os.unlink

    def failing(path: str, *given: Any, **more: Any) -> None:
        if str(path).endswith(f"{recording_id}-{SEGMENT}.rec"):
            raise OSError(errno.EACCES, "Permission denied", path)
        remove(path, *given, **more)

    monkeypatch.setattr(os, "unlink", failing)
    found = everlog("archive", archive.folder, "purge-recording", recording_id)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert found.stderr.startswith("everlog: unable to delete segment file: ")
