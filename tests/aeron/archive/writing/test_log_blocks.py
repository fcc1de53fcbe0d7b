"""The blocks of a log, recorded by the compiled loop and by its twin: what is written is what lies in the log, and what
the loop does not take is left to ``append_block``."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions, DurabilityName
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames import _framer, framing_twin
from everlog.aeron.transport.client.images.image_reader import ImageReader
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import CorruptData
from everlog.kernel.memory import Memory
from tests.aeron.transport.client.private_log import INITIAL_TERM, MTU, SESSION, STREAM, TERM, PrivateLog, frame
from tests.aeron.transport.kernels import KERNELS, Kernel

SEGMENT = 2 * TERM
FRAMERS = {"twin": framing_twin, "compiled": _framer}


class Recorded:
    """A log, its reader, and the end of a recording of it, whose segment file is open at ``tail``."""

    def __init__(self, kernel: Kernel, framers: Any, path: Path, at: int, checksum: str) -> None:
        self.log = PrivateLog.make(kernel.memory)
        self.path = path
        self.path.write_bytes(bytes(SEGMENT))
        self.framer = framers.Framer(
            initial_term_id=INITIAL_TERM,
            term_length=TERM,
            mtu_length=MTU,
            session_id=SESSION,
            stream_id=STREAM,
            checksum=checksum,
        )
        self.framer.begin(at, SEGMENT)
        self.tail = framers.Tail(self.framer)
        self.tail.fd, self.tail.base, self.tail.end = os.open(path, os.O_RDWR), 0, SEGMENT
        self.tail.renew(60.0)
        self.log.read_position = at
        self.image = kernel.image.ImageReader(self.log, self.log.counters, 8)

    def publish(self, position: int, content: bytes) -> None:
        self.log.terms[position // TERM % 3].write(position % TERM, content)

    def record(self, most: int = 1 << 20) -> int:
        with self.tail:
            taken: int = self.image.block_poll_into(self.tail, most)
        assert self.image.position == self.log.read_position == self.framer.position == self.framer.start_position
        assert self.tail.written == self.tail.acknowledged == self.image.position
        return taken

    @property
    def file(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    return found


@contextmanager
def opened(kernel: Kernel, tmp_path: Path, at: int = 0, checksum: str = "none") -> Iterator[Recorded]:
    name = "twin" if kernel.image.__name__.endswith("twin") else "compiled"
    recorded = Recorded(kernel, FRAMERS[name], tmp_path / "segment", at, checksum)
    fd = recorded.tail.fd
    yield recorded
    os.close(fd)


THREE = frame(0, b"a" * 32, reserved=5) + frame(64, b"b" * 33) + frame(160, b"")


def test_what_is_published_is_written_where_it_belongs(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path) as recorded:
        assert recorded.record() == 0
        recorded.publish(0, THREE)
        assert recorded.record() == 192
        assert recorded.record() == 0
        recorded.publish(192, frame(192, b"later"))
        assert recorded.record() == 64
        assert recorded.file == (THREE + frame(192, b"later")).ljust(SEGMENT, b"\0")
        total, total_ns, longest_ns = recorded.tail.block_times()
        assert total == 256
        assert 0 < longest_ns < total_ns
        assert recorded.tail.block_times() == (0, 0, 0)


def test_of_padding_only_the_header_is_written_and_the_next_term_follows(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path, at=TERM - 256) as recorded:
        rubbish = b"\7" * 96
        padding = frame(TERM - 128, kind=0, length=128)
        recorded.publish(TERM - 256, frame(TERM - 256, b"x" * 96) + padding + rubbish)
        recorded.publish(TERM, frame(0, b"next", term_id=INITIAL_TERM + 1))
        assert recorded.record() == 320
        assert recorded.tail.block_times()[0] == 128 + 32 + 64
        written = frame(TERM - 256, b"x" * 96) + padding + bytes(96) + frame(0, b"next", term_id=INITIAL_TERM + 1)
        assert recorded.file[TERM - 256 : TERM + 64] == written


def test_a_limit_is_exceeded_by_one_frame_at_most(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path) as recorded:
        recorded.publish(0, THREE)
        assert recorded.record(most=0) == 0
        assert recorded.record(most=32) == 64
        assert recorded.record(most=96) == 96
        assert recorded.record(most=1) == 32


def test_a_frame_that_is_being_written_is_not_there(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path) as recorded:
        recorded.publish(0, THREE[:64] + frame(64, b"b", length=-33))
        assert recorded.record() == 64
        assert recorded.record() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        frame(96, b"another place"),
        frame(64, b"another term", term_id=INITIAL_TERM + 3),
        frame(64, b"another type", kind=5),
        frame(64, b"x", length=31),
        frame(64, b"over the end", length=TERM),
        frame(64, b"s").replace(struct.pack("<i", SESSION), struct.pack("<i", 1)),
        frame(64, b"s").replace(struct.pack("<i", STREAM), struct.pack("<i", 1)),
    ],
    ids=["offset", "term", "type", "short", "long", "session", "stream"],
)
def test_a_frame_that_does_not_belong_here_is_left_where_it_is(kernel: Kernel, tmp_path: Path, wrong: bytes) -> None:
    with opened(kernel, tmp_path) as recorded:
        recorded.publish(0, THREE[:64] + wrong)
        assert recorded.record() == 64
        assert recorded.record() == 0
        assert recorded.file == THREE[:64].ljust(SEGMENT, b"\0")


def test_checksums_take_the_place_of_session_ids_in_the_file_only(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path, checksum="crc32") as recorded:
        recorded.publish(0, THREE)
        assert recorded.record() == 192
        at = 0
        for one in (THREE[:64], THREE[64:160], THREE[160:]):
            expected = bytearray(one)
            struct.pack_into("<I", expected, 12, zlib.crc32(one[32:]))
            assert recorded.file[at : at + len(one)] == expected
            at += len(one)
        assert recorded.log.frames(0, 192) == THREE


def test_a_segment_ends_the_loop(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path, at=SEGMENT - 64) as recorded:
        recorded.publish(SEGMENT - 64, frame(TERM - 64, b"last", term_id=INITIAL_TERM + 1))
        recorded.publish(SEGMENT, frame(0, b"first", term_id=INITIAL_TERM + 2))
        assert recorded.record() == 64
        assert recorded.record() == 0
        assert len(recorded.file) == SEGMENT


def test_a_write_that_fails_leaves_its_block_unread(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path) as recorded:
        recorded.publish(0, THREE)
        recorded.tail.fd, writable = os.open(recorded.path, os.O_RDONLY), recorded.tail.fd
        assert recorded.record() == 0
        os.close(recorded.tail.fd)
        recorded.tail.fd = writable
        assert recorded.record() == 192


def test_nothing_is_written_while_the_fast_path_is_closed(kernel: Kernel, tmp_path: Path) -> None:
    with opened(kernel, tmp_path) as recorded:
        recorded.publish(0, THREE)
        fd, recorded.tail.fd = recorded.tail.fd, -1
        assert recorded.record() == 0
        recorded.tail.fd = fd
        recorded.tail.renew(-1.0)  # the folder may have another owner by now
        assert recorded.record() == 0
        recorded.tail.renew(60.0)
        assert recorded.framer.frame(b"offered") is True
        with recorded.tail:
            assert recorded.image.block_poll_into(recorded.tail, 1 << 20) == 0
        assert recorded.file == bytes(SEGMENT)


# A whole recorder


def record_log(recorder: Any, log: PrivateLog, image: ImageReader, end: int) -> int:
    """As a session does. Returns how often the loop has left the next block to ``append_block``."""
    left = 0
    while log.read_position < end:
        if not recorder.append_blocks(image, 1 << 14):
            left += 1
            assert image.block_poll(appending(recorder), 1 << 14)
    return left


def appending(recorder: Any) -> Any:
    return lambda block, *_: recorder.append_block(block)


def fill(log: PrivateLog, index: int) -> None:
    content, at = b"", 0
    while at + 1024 <= TERM:
        content += frame(at, bytes([1 + at // 1024 % 250]) * 992, term_id=INITIAL_TERM + index)
        at += 1024
    log.terms[index].write(0, content)


@pytest.mark.parametrize("checksum", get_args(Checksum))
@pytest.mark.parametrize("durability", ["written", "synced"])
def test_a_recording_over_segments_is_that_of_append_block(
    tmp_path: Path, durability: DurabilityName, checksum: Checksum
) -> None:
    written = []
    for way in ("blocks", "one by one"):
        (tmp_path / way).mkdir()
        options = ArchiveOptions(segment_length=TERM, checksum=checksum, durability=durability)
        log = PrivateLog.make(Memory)
        for index in range(3):
            fill(log, index)
        image = ImageReader(log, log.counters, 8)
        with Archive.create(LocalWritableStorage(tmp_path / way), options) as archive:
            channel = f"aeron:ipc?term-length=64k|mtu={MTU}|init-term-id=7|term-id=7|term-offset=0|session-id={SESSION}"
            recorder = archive.start_recording(channel, STREAM)
            if way == "blocks":
                left = record_log(recorder, log, image, 3 * TERM)
                is_direct = durability == "written"
                assert left == 0 if is_direct else left > 2
                assert (tmp_path / way / f"0-{3 * TERM}.rec").exists()  # the next segment, before it is needed
            else:
                while image.position < 3 * TERM:
                    image.block_poll(appending(recorder), 1 << 14)
            assert recorder.recorded_position == 3 * TERM
            recorder.stop()
        files = sorted((tmp_path / way).glob("*.rec"))
        written.append([(path.name, path.read_bytes()) for path in files])
    assert len(written[0]) >= 3
    assert written[0] == written[1]


def test_what_the_loop_leaves_is_an_error_of_append_block(tmp_path: Path) -> None:
    log = PrivateLog.make(Memory)
    log.terms[0].write(0, THREE[:64] + frame(96, b"another place"))
    image = ImageReader(log, log.counters, 8)
    with Archive.create(LocalWritableStorage(tmp_path), ArchiveOptions()) as archive:
        channel = f"aeron:ipc?term-length=64k|mtu={MTU}|init-term-id=7|term-id=7|term-offset=0|session-id={SESSION}"
        recorder = archive.start_recording(channel, STREAM)
        assert recorder.append_blocks(image, 1 << 14) == 64
        assert recorder.append_blocks(image, 1 << 14) == 0
        with pytest.raises(CorruptData, match="term_offset 96; expected 64"):
            image.block_poll(appending(recorder), 1 << 14)
        assert recorder.stop() == 64
