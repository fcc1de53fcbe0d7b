"""Private memory while all of a large store is read: bounded, whatever the store's size."""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.generate import (
    HEADER,
    INITIAL_TERM_ID,
    SEGMENT_BYTES,
    SESSION_ID,
    START_NS,
    STREAM_ID,
    TERM_BYTES,
    descriptor,
    nats_store,
    varint,
    write_catalog,
)
from benchmarks.lines import Line

STORE_BYTES = 4 << 30
LIMIT_MB = 300

READ_ALL = """
import sys, everlog

def private_mb():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("RssAnon")).split()[1]) / 1024

peak = rows = 0
with everlog.open_store(sys.argv[1]) as store:
    for stream in store.streams():
        for batch in store.scan(stream.name):
            rows += batch.row_count
            peak = max(peak, private_mb())
    report = store.verify()
    peak = max(peak, private_mb())
assert report.ok, report.faults[:3]
assert rows == int(sys.argv[2]), rows
print(peak)
"""


def sparse_archive(folder: Path) -> tuple[Path, int]:
    """4 GiB in frames of 64 KiB whose payloads are holes."""
    folder.mkdir()
    frame = 65_536 - 32
    per_term = TERM_BYTES // (65_536)
    rows = 0
    for base in range(0, STORE_BYTES, SEGMENT_BYTES):
        with (folder / f"0-{base}.rec").open("wb") as file:
            file.truncate(SEGMENT_BYTES)
            for position in range(base, base + SEGMENT_BYTES, 65_536):
                header = np.zeros(1, dtype=HEADER)
                header["length"], header["flags"], header["type"] = frame + 32, 0xC0, 1
                header["term_offset"], header["term"] = position % TERM_BYTES, INITIAL_TERM_ID + position // TERM_BYTES
                header["session"], header["stream"] = SESSION_ID, STREAM_ID
                file.seek(position - base)
                file.write(header.tobytes())
                rows += 1
    assert rows == per_term * (STORE_BYTES // TERM_BYTES)
    write_catalog(folder, [descriptor(0, STORE_BYTES, mtu=65_536)])
    return folder, rows


def sparse_journal(folder: Path) -> tuple[Path, int]:
    """One segment of 4 GiB, messages of 1 MiB whose payloads are holes, no index."""
    folder.mkdir()
    (folder / "metastore").write_bytes(struct.pack("<IIII", 0, 0xFFFFFFFF, 1, 0x663A7318))
    count = STORE_BYTES // (1 << 20)
    with (folder / "00000000").open("wb") as file:
        for i in range(count):
            file.seek(i << 20)
            file.write(struct.pack("<IIII", 0x663A7318, START_NS // 10**9, 0, (1 << 20) - 16))
        file.truncate(count << 20)
    return folder, count


def sparse_streaming_store(folder: Path) -> tuple[Path, int]:
    """One slice of 4 GiB, messages of 1 MiB whose data are holes, no index (so that it must be walked)."""
    nats_store(folder, {})
    (folder / "big").mkdir()
    (folder / "big" / "subs.dat").write_bytes(struct.pack("<I", 1))
    data_bytes, count, offset = 1 << 20, STORE_BYTES >> 20, 4
    zeros = bytes(data_bytes)
    with (folder / "big" / "msgs.1.dat").open("wb") as file:
        file.write(struct.pack("<I", 1))
        for sequence in range(1, count + 1):
            head = b"\x08" + varint(sequence) + b"\x12\x03big\x22" + varint(data_bytes)
            tail = b"\x28" + varint(START_NS + sequence)
            crc = zlib.crc32(tail, zlib.crc32(zeros, zlib.crc32(head)))
            file.seek(offset)
            file.write(struct.pack("<II", len(head) + data_bytes + len(tail), crc) + head)
            file.seek(data_bytes, 1)
            file.write(tail)
            offset += 8 + len(head) + data_bytes + len(tail)
    return folder, count


def lines() -> Iterator[Line]:
    """RssAnon at its highest while every record of 4 GiB is read and the store is verified."""
    for name, make in (("aeron", sparse_archive), ("jlog", sparse_journal), ("nats", sparse_streaming_store)):
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            store, rows = make(Path(folder) / "store")
            command = [sys.executable, "-c", READ_ALL, str(store), str(rows)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            yield Line(f"private-memory-{name}-4GiB", float(done.stdout), "MB", f"<={LIMIT_MB}")
