"""A frame whose last page is all zeros looks torn when nothing is behind it: what is recorded must survive all the
same."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive
from everlog.aeron.frames import framing_twin
from everlog.aeron.frames.framing import Framer

TERM = 64 << 10
CHANNEL = "aeron:ipc?term-length=64k"


def frames_of(segment: Path) -> list[tuple[int, int, int]]:
    """Offset, type and length of the frames in a segment file, by their headers."""
    data, at, found = segment.read_bytes(), 0, []
    while at < len(data) and (length := struct.unpack_from("<i", data, at)[0]) > 0:
        found.append((at, struct.unpack_from("<H", data, at + 6)[0], length))
        at += (length + 31) // 32 * 32
    return found


def killed(folder: Path, copy: Path) -> Path:
    """The folder as it is now: what a kill at this moment leaves."""
    shutil.copytree(folder, copy)
    return copy


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("way", ["append", "append_many", "offer"])
def test_zeros_over_a_pages_end_that_were_recorded_survive_a_kill(tmp_path: Path, way: str) -> None:
    # The first frame ends at 3,104; the second one reaches from there to 4,512, over the page's end at 4,096.
    sent = [b"x" * 3072, bytes(1376)]
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        recorder = store.start_recording(CHANNEL, 1, mtu_length=4096)
        recorder.append(sent[0])
        if way == "append_many":
            recorder.append_many(sent[1:])
        else:
            getattr(recorder, way)(sent[1])
        recorder.flush()
        copy = killed(tmp_path / "a", tmp_path / "b")
    assert frames_of(copy / "0-0.rec") == [(0, 1, 3104), (3104, 1, 1408), (4512, 0, 32)]
    with archive.open_archive(copy, liveness_timeout_s=0) as store:
        assert [record.payload for record in store.replay(0)] == sent
        assert store.stop_position(0) == 4544


@pytest.mark.usefixtures("kernel")
def test_zeros_at_a_segments_end_have_their_padding_in_the_next_one(tmp_path: Path) -> None:
    # 15 frames of 4,096 bytes, 96 bytes, and one of 4,000 which ends where the segment does.
    sent = [b"x" * 4064] * 15 + [b"y" * 64, bytes(3968)]
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        recorder = store.start_recording(CHANNEL, 1, mtu_length=4096)
        for payload in sent:
            recorder.append(payload)
        copy = killed(tmp_path / "a", tmp_path / "b")
    # It begins behind the last page's start, so it lies in one page, and is in no doubt.
    assert frames_of(copy / "0-65536.rec") == []
    with archive.open_archive(copy, liveness_timeout_s=0) as store:
        assert [record.payload for record in store.replay(0)] == sent


@pytest.mark.usefixtures("kernel")
def test_zeros_over_a_pages_end_that_fill_a_segment_have_their_padding_in_the_next_one(tmp_path: Path) -> None:
    # 14 frames of 4,096 bytes, one of 4,032, and one of 4,160 which ends where the segment does.
    sent = [b"x" * 4064] * 14 + [b"y" * 4000, bytes(4128)]
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        recorder = store.start_recording(CHANNEL, 1, mtu_length=8192)
        for payload in sent:
            recorder.append(payload)
        copy = killed(tmp_path / "a", tmp_path / "b")
    assert frames_of(copy / "0-0.rec")[-1] == (61376, 1, 4160)
    assert frames_of(copy / "0-65536.rec") == [(0, 0, 32)]
    with archive.open_archive(copy, liveness_timeout_s=0) as store:
        assert [record.payload for record in store.replay(0)] == sent


@pytest.mark.usefixtures("kernel")
def test_a_message_that_is_in_no_doubt_gets_no_padding(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        recorder = store.start_recording(CHANNEL, 1, mtu_length=4096)
        recorder.append_many([bytes(3072), b"x" * 1376, bytes(64)])
    assert [kind for _, kind, _ in frames_of(tmp_path / "a" / "0-0.rec")] == [1, 1, 1]


@pytest.mark.parametrize("kind", [Framer, framing_twin.Framer])
def test_with_a_checksum_nothing_is_in_doubt(kind: type[Framer]) -> None:
    for checksum, expected in (("none", True), ("crc32c", False)):
        framer = kind(
            initial_term_id=0, term_length=TERM, mtu_length=8192, session_id=1, stream_id=1, checksum=checksum
        )
        framer.begin(0, TERM)
        assert framer.frame(bytes(8000))
        assert framer.ends_in_doubt() is expected


@pytest.mark.usefixtures("kernel")
def test_frames_of_another_stream_follow_each_other_whatever_they_end_in(tmp_path: Path) -> None:
    stream: dict[str, Any] = {"initial_term_id": 0, "session_id": 1, "mtu_length": 8192}
    framer = Framer(term_length=TERM, stream_id=1, **stream)
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        recorder = store.start_recording(CHANNEL, 1, **stream)
        for start in range(0, TERM, 8192):
            framer.begin(start, TERM)
            framer.frame(bytes(8160))
            assert recorder.append_block(framer.view()) == start + 8192
    assert frames_of(tmp_path / "a" / "0-0.rec") == [(start, 1, 8192) for start in range(0, TERM, 8192)]


@pytest.mark.parametrize("filled", [0, 63], ids=["alone", "alone in its segment"])
def test_a_frame_without_a_checksum_survives_a_kill_before_the_first_one_with_a_checksum(
    tmp_path: Path, filled: int
) -> None:
    sent = [b"x" * 992] * filled + [b"acknowledged"]
    if filled:
        sent.append(b"y" * 1000)
    with archive.create(tmp_path / "a", segment_length=TERM) as store:
        with store.start_recording(CHANNEL, 1) as recorder:
            recorder.append_many(sent)
        store.extend_recording(0)  # with another session id
        copy = killed(tmp_path / "a", tmp_path / "b")
    with archive.open_archive(copy, liveness_timeout_s=0, checksum="crc32") as store:
        assert [record.payload for record in store.replay(0)] == sent
