"""everlog archive DIR start, extend, stop."""

from __future__ import annotations

import pytest

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.client import ExclusivePublication
from tests.aeron.archive.service.served import CHANNEL, until
from tests.cli.archive.served_archive import Served
from tests.cli.conftest import Everlog


def publish(archive: Served, stream_id: int, payloads: list[bytes]) -> tuple[int, ExclusivePublication]:
    """Publish to a stream that is being recorded."""
    publication = archive.client.aeron.add_exclusive_publication(CHANNEL, stream_id)
    recording_id = archive.recording_of(stream_id)
    archive.publish(recording_id, publication, payloads)
    return recording_id, publication


@pytest.mark.parametrize("kind", ["folder", "channel"])
def test_a_stream_is_recorded_from_start_to_stop(archive: Served, everlog: Everlog, kind: str) -> None:
    stream_id, target, options = archive.stream(), archive.target(kind), archive.options(kind)
    found = everlog("archive", *target, "start", CHANNEL, stream_id, *options)
    assert (found.code, found.stderr) == (0, "")
    subscription_id = int(found.text.split()[1])
    assert found.text == f"subscription {subscription_id} records stream {stream_id} of {CHANNEL}\n"
    recording_id, publication = publish(archive, stream_id, [b"one", b"two"])
    # The same stream again is refused, in the archive's words.
    again = everlog("archive", *target, "start", CHANNEL, stream_id, *options)
    assert (again.code, again.text) == (2, "")
    assert again.stderr == f"everlog: recording exists for streamId={stream_id} channel={CHANNEL}\n"
    found = everlog("archive", *target, "stop", "--subscription", subscription_id, *options)
    assert (found.code, found.text, found.stderr) == (0, "stopped\n", "")
    until(lambda: archive.client.stop_position(recording_id) == 128)
    found = everlog("archive", *target, "stop", "--subscription", subscription_id, *options)
    assert (found.code, found.text) == (1, "nothing was active\n")
    publication.close()


def test_a_recording_is_stopped_by_its_id_and_by_its_channel(archive: Served, everlog: Everlog) -> None:
    for by in ("recording", "channel"):
        stream_id = archive.stream()
        assert everlog("archive", archive.folder, "start", CHANNEL, stream_id).code == 0
        recording_id, publication = publish(archive, stream_id, [b"one"])
        chosen = ["--recording", recording_id] if by == "recording" else ["--channel", CHANNEL, "--stream", stream_id]
        found = everlog("archive", archive.folder, "stop", *chosen)
        assert (found.code, found.text) == (0, "stopped\n")
        until(lambda recording_id=recording_id: archive.client.stop_position(recording_id) == 64)  # type: ignore[misc]
        found = everlog("archive", archive.folder, "stop", *chosen)
        assert (found.code, found.text) == (1, "nothing was active\n")
        publication.close()


def test_with_auto_stop_the_first_publication_is_all(archive: Served, everlog: Everlog) -> None:
    stream_id = archive.stream()
    assert everlog("archive", archive.folder, "start", CHANNEL, stream_id, "--auto-stop").code == 0
    recording_id, publication = publish(archive, stream_id, [b"one"])
    publication.close()
    until(lambda: archive.client.stop_position(recording_id) == 64)
    until(lambda: list(archive.client.list_recording_subscriptions("", stream_id)) == [])


def test_a_stopped_recording_is_extended_where_it_stops(archive: Served, everlog: Everlog) -> None:
    recording_id = archive.recorded([b"one", b"two"])
    stopped = archive.client.list_recording(recording_id)
    assert stopped is not None
    stream_id = stopped.stream_id
    found = everlog("archive", archive.folder, "extend", recording_id, CHANNEL, stream_id)
    assert (found.code, found.stderr) == (0, "")
    subscription_id = int(found.text.split()[1])
    assert found.text == f"subscription {subscription_id} extends recording {recording_id}\n"
    place = {
        "init-term-id": str(stopped.initial_term_id),
        "term-id": str(stopped.initial_term_id),
        "term-offset": "128",
        "mtu": str(stopped.mtu_length),
    }
    channel = str(ChannelUri.parse(CHANNEL).with_params(place))
    publication = archive.client.aeron.add_exclusive_publication(channel, stream_id)
    archive.publish(recording_id, publication, [b"three"])
    assert everlog("archive", archive.folder, "stop", "--recording", recording_id).code == 0
    until(lambda: archive.client.stop_position(recording_id) == 192)
    publication.close()
    found = everlog("archive", archive.folder, "replay", recording_id)
    assert found.stdout == b"one\ntwo\nthree\n"
    found = everlog("archive", archive.folder, "extend", recording_id, CHANNEL, stream_id + 500)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
    assert "stream" in found.stderr


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--recording", "1", "--subscription", "1"],
        ["--channel", CHANNEL],
        ["--stream", "1"],
        ["--recording", "1", "--stream", "1"],
        ["--recording", "-1"],
    ],
)
def test_what_to_stop_must_be_said_once(archive: Served, everlog: Everlog, given: list[str]) -> None:
    found = everlog("archive", archive.folder, "stop", *given)
    assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("channel", ["aeron:tcp", "ipc"])
def test_a_channel_that_is_none_is_refused_in_one_line(archive: Served, everlog: Everlog, channel: str) -> None:
    for given in (["start", channel, 1], ["extend", 0, channel, 1], ["stop", "--channel", channel, "--stream", 1]):
        found = everlog("archive", archive.folder, *given)
        assert (found.code, found.text, found.stderr.count("\n")) == (2, "", 1)
        assert "internal error" not in found.stderr


def test_an_unknown_recording_is_refused_in_the_archives_words(archive: Served, everlog: Everlog) -> None:
    for given in (["extend", 9_999, CHANNEL, 1], ["stop", "--recording", 9_999], ["replay", 9_999]):
        found = everlog("archive", archive.folder, *given)
        assert (found.code, found.text) == (2, "")
        assert found.stderr == "everlog: unknown recording id: 9999\n"
