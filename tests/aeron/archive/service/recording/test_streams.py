"""Which channels are one stream, what is subscribed to, and which images continue a recording. Expected values follow
ArchiveConductor's makeKey, startRecording and validateImageForExtendRecording."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.recording.streams import check_image_extends, stream_key, subscription_channel
from tests.aeron.archive.service.recording.recording_world import Received


@pytest.mark.parametrize(
    ("channel", "key"),
    [
        ("aeron:ipc", "7:ipc"),
        ("aeron:ipc?term-length=64k|alias=a", "7:ipc"),
        ("aeron:udp?endpoint=a:1|mtu=1408|interface=b", "7:udp?endpoint=a:1|interface=b"),
        (
            "aeron:udp?tags=1,2|session-id=9|control=c:2|control-mode=manual|interface=b|endpoint=a:1",
            "7:udp?endpoint=a:1|interface=b|control=c:2|session-id=9|tags=1,2",
        ),
        ("aeron-spy:aeron:udp?endpoint=a:1", "7:udp?endpoint=a:1"),
    ],
)
def test_a_stream_is_known_by_the_parameters_that_name_its_place(channel: str, key: str) -> None:
    assert stream_key(7, channel) == key


def test_what_is_no_channel_has_no_key() -> None:
    with pytest.raises(ArchiveError, match="unknown media: tcp"):
        stream_key(7, "aeron:tcp?endpoint=a:1")


@pytest.mark.parametrize(
    ("channel", "location", "subscribed"),
    [
        ("aeron:ipc?term-length=64k", SourceLocation.LOCAL, "aeron:ipc"),
        ("aeron:ipc?term-length=64k", SourceLocation.REMOTE, "aeron:ipc"),
        ("aeron:ipc?alias=udp", SourceLocation.LOCAL, "aeron:ipc?alias=udp"),
        ("aeron:udp?mtu=1408|endpoint=a:1", SourceLocation.LOCAL, "aeron-spy:aeron:udp?endpoint=a:1"),
        ("aeron:udp?mtu=1408|endpoint=a:1", SourceLocation.REMOTE, "aeron:udp?endpoint=a:1"),
        ("aeron-spy:aeron:udp?endpoint=a:1", SourceLocation.REMOTE, "aeron:udp?endpoint=a:1"),
    ],
)
def test_a_local_publisher_on_the_network_is_spied_on(channel: str, location: SourceLocation, subscribed: str) -> None:
    assert subscription_channel(channel, location) == subscribed


def recording(**other: Any) -> Recording:
    fields: dict[str, Any] = {
        "recording_id": 3,
        "state": "VALID",
        "start_position": 0,
        "stop_position": 128,
        "initial_term_id": 7,
        "segment_file_length": 64 << 10,
        "term_buffer_length": 64 << 10,
        "mtu_length": 256,
        "session_id": -99,
        "stream_id": 1001,
    }
    return Recording(**(fields | other))


def test_an_image_with_another_session_continues_a_recording() -> None:
    check_image_extends(recording(), Received(join_position=128, session_id=4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"join_position": 0}, "image.joinPosition=0 != rec.stopPosition=128"),
        ({"initial_term_id": 8}, "image.initialTermId=8 != rec.initialTermId=7"),
        ({"term_buffer_length": 128 << 10}, "image.termBufferLength=131072 != rec.termBufferLength=65536"),
        ({"mtu_length": 1408}, "image.mtuLength=1408 != rec.mtuLength=256"),
    ],
)
def test_an_image_that_does_not_fit_is_refused_with_what_differs(other: dict[str, int], text: str) -> None:
    image: Any = Received(**({"join_position": 128} | other))
    with pytest.raises(ArchiveError) as refused:
        check_image_extends(recording(), image)
    assert refused.value.message == f"cannot extend recording 3 {text}"
    assert refused.value.code is ErrorCode.INVALID_EXTENSION


def test_no_image_fits_a_recording_without_a_stop_position() -> None:
    image: Any = Received(join_position=128)
    with pytest.raises(ArchiveError, match=r"rec\.stopPosition=-1"):
        check_image_extends(recording(stop_position=None), image)
