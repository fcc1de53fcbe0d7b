"""A program that records a log by the compiled loop; a test traces its system calls. Arguments: the archive's folder,
durability, checksum, the descriptor of the trace.

The trace also says what is acknowledged: ``acknowledged . POSITION 0 0``, and at the end how often the loop has
recorded something: ``looped . COUNT 0 0``."""

from __future__ import annotations

import os
import random
import sys
from typing import cast

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions, DurabilityName
from everlog.aeron.archive.writing import heartbeat
from everlog.aeron.family_options import Checksum
from everlog.aeron.transport.client.images.image_reader import ImageReader
from everlog.core.files.writable import LocalWritableStorage
from everlog.kernel.memory import Memory
from tests.aeron.transport.client.private_log import INITIAL_TERM, MTU, SESSION, STREAM, TERM, PrivateLog, frame

CHANNEL = f"aeron:ipc?term-length=64k|mtu={MTU}|init-term-id=7|term-id=7|term-offset=0|session-id={SESSION}"
TERMS = 3
SEED = 1


def stream() -> list[tuple[int, bytes]]:
    """Frames with their positions: three terms, each ending in padding."""
    rng = random.Random(SEED)
    found = []
    for term in range(TERMS):
        at = 0
        while TERM - at >= MTU:
            length = rng.choice((1, 20, 100, 700, MTU - 32))
            content = frame(at, rng.randbytes(length - 1) + b"!", term_id=INITIAL_TERM + term)
            found.append((term * TERM + at, content))
            at += len(content)
        if at < TERM:
            found.append((term * TERM + at, frame(at, kind=0, length=TERM - at, term_id=INITIAL_TERM + term)))
    return found


def run(folder: str, durability: DurabilityName, checksum: Checksum, trace: int) -> None:
    """Record all of it, some frames at a time."""
    heartbeat.INTERVAL_S = 3600.0
    rng = random.Random(SEED)
    options = ArchiveOptions(
        durability=durability, checksum=checksum, segment_length=TERM, catalog_capacity=4096, liveness_timeout_s=0
    )
    log = PrivateLog.make(Memory)
    image = ImageReader(log, log.counters, 8)
    frames, looped = stream(), 0
    with Archive.open(LocalWritableStorage(folder), options) as archive:
        recorder = archive.start_recording(CHANNEL, STREAM)
        while frames:
            count = rng.choice((1, 2, 30, 90))
            for position, content in frames[:count]:
                log.terms[position // TERM % 3].write(position % TERM, content)
            end = frames[:count][-1][0]
            frames = frames[count:]
            while image.position <= end:
                if recorder.append_blocks(image, TERM):
                    looped += 1
                else:
                    image.block_poll(lambda block, *_: recorder.append_block(block), TERM)
                os.write(trace, b"acknowledged . %d 0 0\n" % recorder.recorded_position)
        recorder.stop()
    os.write(trace, b"looped . %d 0 0\n" % looped)


if __name__ == "__main__":
    run(sys.argv[1], cast(DurabilityName, sys.argv[2]), cast(Checksum, sys.argv[3]), int(sys.argv[4]))
