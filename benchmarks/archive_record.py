"""Recording from Python beside the real Aeron Archive, which records from IPC, both into a new recording each time.

Messages are given as lists of ``bytes``, 64 Ki at a time; raw blocks come from a file, 1 MiB at a time, beside a copy
of that file. What is recorded is removed outside of the time. Each run follows one of the same that does not count:
both sides write to memory that was touched before.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.archive_peer import MESSAGES, ArchivePeer
from benchmarks.lines import Line, median_rate, paired_rates, where
from everlog.aeron import archive
from everlog.aeron.archive import Archive, Recorder
from everlog.aeron.frames.constants import HEADER_LENGTH, align
from everlog.aeron.frames.framing import Framer

CHUNK_MESSAGES = 1 << 16
DIFFERENT_PAYLOADS = 4096
BLOCK_BYTES = 1 << 20
BLOCK_FRAME_BYTES = 1024
BLOCK_FILE_BYTES = 1 << 30
STREAM_ID = 1001
SESSION = {"session_id": 1, "initial_term_id": 1}
TERM_BYTES = 64 << 20
MTU_LENGTH = 1408
SINGLE_MESSAGES = 400_000


def payloads_of(size: int) -> list[bytes]:
    """A chunk of messages; many are different objects."""
    different = [i.to_bytes(4, "little") * (size // 4) for i in range(DIFFERENT_PAYLOADS)]
    return different * (CHUNK_MESSAGES // DIFFERENT_PAYLOADS)


def timed(store: Archive, work: Callable[[Recorder], float], amount: float, **stream: int) -> float:
    """``amount`` a second of work with a new recorder; the recording is removed."""
    recorder = store.start_recording("aeron:ipc", STREAM_ID, **stream)
    begin = time.perf_counter()
    work(recorder)
    took = time.perf_counter() - begin
    recorder.stop()
    store.purge_recording(recorder.recording_id)
    return amount / took


def record(store: Archive, size: int, payloads: list[bytes]) -> float:
    """Messages a second, as many as the peer records."""
    count = MESSAGES[size]

    def work(recorder: Recorder) -> int:
        left = count
        while left:
            taken = min(left, len(payloads))
            recorder.append_many(payloads if taken == len(payloads) else payloads[:taken])
            left -= taken
        return recorder.recorded_position

    return timed(store, work, count)


def whole_frames(folder: Path) -> Path:
    """A file of frames, of which each block of the file is a whole number, as a recording from position 0 on has."""
    path, payloads = folder / "frames", [bytes(BLOCK_FRAME_BYTES - HEADER_LENGTH)] * (BLOCK_BYTES // BLOCK_FRAME_BYTES)
    framer = Framer(term_length=TERM_BYTES, mtu_length=MTU_LENGTH, stream_id=STREAM_ID, **SESSION)
    with path.open("wb") as file:
        for start in range(0, BLOCK_FILE_BYTES, BLOCK_BYTES):
            framer.begin(start, BLOCK_FILE_BYTES)
            framer.frame_many(payloads, 0)
            file.write(framer.view())
    return path


def record_blocks(store: Archive, frames: Path) -> float:
    """Bytes a second, read from the file and recorded."""
    buffer = bytearray(BLOCK_BYTES)

    def work(recorder: Recorder) -> int:
        with frames.open("rb", buffering=0) as source:
            while source.readinto(buffer):
                recorder.append_block(buffer)
        if recorder.recorded_position != BLOCK_FILE_BYTES:
            raise SystemExit(f"recorded {recorder.recorded_position} bytes of {BLOCK_FILE_BYTES}")
        return recorder.recorded_position

    return timed(store, work, BLOCK_FILE_BYTES, **SESSION)


def copy(frames: Path) -> float:
    """Bytes a second of a plain copy of the file."""
    target = frames.with_name("copy")
    begin = time.perf_counter()
    shutil.copyfile(frames, target)
    took = time.perf_counter() - begin
    target.unlink()
    return BLOCK_FILE_BYTES / took


def append_singly(store: Archive, call: Callable[[Recorder], Callable[[bytes], int]]) -> float:
    """Messages of 32 bytes a second, a call for each."""
    payload = bytes(32)

    def work(recorder: Recorder) -> int:
        append = call(recorder)
        for _ in range(SINGLE_MESSAGES):
            append(payload)
        return recorder.flush()

    return timed(store, work, SINGLE_MESSAGES)


def lines() -> Iterator[Line | str]:
    """Bulk beside Java, raw blocks beside a copy, and single appends."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        yield f"both archives on {where(folder)}; a message's header, padding and all are counted as bytes"
        with archive.create(folder / "everlog") as store, ArchivePeer(folder) as peer:
            for size, target in ((1024, ">=1.2"), (32, ">=1.0")):
                payloads = payloads_of(size)
                value, ratio = paired_rates(
                    lambda size=size, payloads=payloads: record(store, size, payloads),  # type: ignore[misc]
                    lambda size=size: peer.record(size).messages_per_second,  # type: ignore[misc]
                    rehearses=True,
                )
                frame_bytes = align(size + HEADER_LENGTH)
                yield f"archive-record-{size}B: {value * frame_bytes / 1e9:.2f} GB/s"
                yield Line(f"archive-record-{size}B", value / 1e6, "M/s", target, ratio)
            frames = whole_frames(folder)
            value, ratio = paired_rates(lambda: record_blocks(store, frames), lambda: copy(frames), rehearses=True)
            yield Line("archive-record-blocks", value / 1e9, "GB/s", ">=0.8", ratio)
            for name, call in (("append", lambda r: r.append), ("offer", lambda r: r.offer)):
                value = median_rate(lambda call=call: append_singly(store, call))  # type: ignore[misc]
                yield Line(f"archive-{name}-one-32B", value / 1e6, "M/s", ">=1")
