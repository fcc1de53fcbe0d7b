"""Stores of any size for the benchmarks, made with numpy from the format descriptions and independent of everlog's
own code, so that a mistake in everlog's layouts would show.

Payload bytes are random (seeded), so that nothing compresses.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

TERM_BYTES = 64 << 20
SEGMENT_BYTES = 128 << 20
INITIAL_TERM_ID = 7
SESSION_ID = -11
STREAM_ID = 1001
START_NS = 1_700_000_000_000_000_000


def aeron_term(term_index: int, payload_bytes: int, term_bytes: int = TERM_BYTES) -> np.ndarray:
    """One full term of unfragmented messages, a padding frame at its end. Reserved values count up through the
    stream.
    """
    aligned = (32 + payload_bytes + 31) & ~31
    count = term_bytes // aligned
    rest = term_bytes - count * aligned
    term = np.zeros(term_bytes, dtype=np.uint8)
    frames = term[: count * aligned].reshape(count, aligned)
    rng = np.random.default_rng(term_index)
    block = rng.integers(0, 256, (min(count, 4096), payload_bytes), dtype=np.uint8)
    for begin in range(0, count, len(block)):
        part = frames[begin : begin + len(block)]
        part[:, 32 : 32 + payload_bytes] = block[: len(part)]
    header = np.zeros(count, dtype=HEADER)
    header["length"] = 32 + payload_bytes
    header["flags"] = 0xC0
    header["type"] = 1
    header["term_offset"] = np.arange(count, dtype=np.int64) * aligned
    header["session"], header["stream"], header["term"] = SESSION_ID, STREAM_ID, INITIAL_TERM_ID + term_index
    header["reserved"] = np.arange(count, dtype=np.int64) + term_index * count
    frames[:, :32] = header.view(np.uint8).reshape(count, 32)
    if rest:
        padding = np.zeros(1, dtype=HEADER)
        padding["length"], padding["flags"], padding["type"] = rest, 0xC0, 0
        padding["term_offset"] = count * aligned
        padding["session"], padding["stream"], padding["term"] = SESSION_ID, STREAM_ID, INITIAL_TERM_ID + term_index
        term[count * aligned : count * aligned + 32] = padding.view(np.uint8)
    return term


HEADER = np.dtype(
    {
        "names": ["length", "version", "flags", "type", "term_offset", "session", "stream", "term", "reserved"],
        "formats": ["<i4", "u1", "u1", "<u2", "<i4", "<i4", "<i4", "<i4", "<i8"],
        "offsets": [0, 4, 5, 6, 8, 12, 16, 20, 24],
        "itemsize": 32,
    }
)


def descriptor(
    recording_id: int, stop_position: int, *, term_bytes: int = TERM_BYTES, mtu: int = 1408, checksum: bool = False
) -> bytes:
    """A catalog entry, padded to 64 bytes: 32-byte header, with a CRC32 of the rest where asked for, 80-byte block,
    three strings."""
    block = struct.pack(
        "<qqqqqqqiiiiii",
        -1,
        -1,
        recording_id,
        START_NS // 10**6,
        START_NS // 10**6 + 1000,
        0,
        stop_position,
        INITIAL_TERM_ID,
        max(SEGMENT_BYTES, term_bytes),
        term_bytes,
        mtu,
        SESSION_ID,
        STREAM_ID,
    )
    for text in (b"aeron:ipc", b"aeron:ipc?term-length=64m", b"aeron:ipc"):
        block += struct.pack("<I", len(text)) + text
    length = (32 + len(block) + 63) & ~63
    body = block.ljust(length - 32, b"\0")
    return struct.pack("<iiI", length - 32, 1, zlib.crc32(body) if checksum else 0) + bytes(20) + body


def with_checksums(term: np.ndarray) -> np.ndarray:
    """The term with a CRC32 of each frame, without its header and with what aligns it, where the session id was."""
    offset = 0
    whole = memoryview(term.data)
    while offset < len(term):
        aligned = (struct.unpack_from("<i", whole, offset)[0] + 31) & ~31
        struct.pack_into("<I", whole, offset + 12, zlib.crc32(whole[offset + 32 : offset + aligned]))
        offset += aligned
    return term


def write_catalog(folder: Path, entries: list[bytes]) -> None:
    """Catalog 3.1."""
    head = struct.pack("<iiqi", 196864, 32, len(entries), 64) + bytes(12)
    (folder / "archive.catalog").write_bytes(head + b"".join(entries))


def aeron_archive(
    folder: Path,
    payload_bytes: int,
    total_bytes: int,
    payloads: Callable[[int], np.ndarray] | None = None,
    *,
    checksums: bool = False,
) -> Path:
    """An archive with one stopped recording of about ``total_bytes``. ``payloads`` makes so many messages of
    ``payload_bytes``, one behind the other, for each term. ``checksums``: each frame has its CRC32."""
    folder.mkdir(parents=True)
    terms = max(1, total_bytes // TERM_BYTES)
    per_segment = SEGMENT_BYTES // TERM_BYTES
    for first in range(0, terms, per_segment):
        with (folder / f"0-{first * TERM_BYTES}.rec").open("wb") as file:
            for index in range(first, min(first + per_segment, terms)):
                term = aeron_term(index, payload_bytes)
                if payloads is not None:
                    aligned = (32 + payload_bytes + 31) & ~31
                    count = TERM_BYTES // aligned
                    frames = term[: count * aligned].reshape(count, aligned)
                    made = payloads(count).view(np.uint8).reshape(count, payload_bytes)
                    frames[:, 32 : 32 + payload_bytes] = made
                file.write((with_checksums(term) if checksums else term).data)
            file.truncate(SEGMENT_BYTES)
    write_catalog(folder, [descriptor(0, terms * TERM_BYTES, checksum=checksums)])
    return folder


def many_segments(folder: Path, count: int) -> Path:
    """An archive with one recording of ``count`` sparse segments."""
    folder.mkdir(parents=True)
    for number in range(count):
        with (folder / f"0-{number * SEGMENT_BYTES}.rec").open("wb") as file:
            file.truncate(SEGMENT_BYTES)
    write_catalog(folder, [descriptor(0, count * SEGMENT_BYTES)])
    return folder


def journal_of_segments(folder: Path, count: int) -> Path:
    """A journal of ``count`` segments with a message each, a second apart, as large as they usually are (sparse)."""
    folder.mkdir(parents=True)
    (folder / "metastore").write_bytes(struct.pack("<IIII", count - 1, 4 << 20, 1, 0x663A7318))
    length = (4 << 20) - 16
    for number in range(count):
        with (folder / f"{number:08x}").open("wb") as file:
            file.write(struct.pack("<IIII", 0x663A7318, START_NS // 10**9 + number, 0, length))
            file.truncate(16 + length)
    return folder


def many_recordings(folder: Path, count: int) -> Path:
    """An archive of ``count`` small recordings, one sparse segment file each."""
    folder.mkdir(parents=True)
    for recording_id in range(count):
        with (folder / f"{recording_id}-0.rec").open("wb") as file:
            file.truncate(SEGMENT_BYTES)
    write_catalog(folder, [descriptor(i, 64 * (i % 1000)) for i in range(count)])
    return folder


def jlog_segment(payload_bytes: int, total_bytes: int) -> np.ndarray:
    """Messages of a plain journal, back to back."""
    fields = [("magic", "<u4"), ("sec", "<u4"), ("usec", "<u4"), ("length", "<u4"), ("payload", "u1", (payload_bytes,))]
    dtype = np.dtype(fields)
    count = total_bytes // dtype.itemsize
    rows = np.zeros(count, dtype=dtype)
    rows["magic"], rows["length"] = 0x663A7318, payload_bytes
    rows["sec"] = START_NS // 10**9 + np.arange(count) // 1000
    rows["usec"] = np.arange(count) % 1000 * 1000
    rng = np.random.default_rng(1)
    rows["payload"] = rng.integers(0, 256, (count, payload_bytes), dtype=np.uint8)
    return rows.view(np.uint8).reshape(-1)


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def nats_record(sequence: int, channel: bytes, data: bytes, timestamp: int) -> bytes:
    """A message record: size, CRC-32, MsgProto."""
    body = b"\x08" + varint(sequence) + b"\x12" + varint(len(channel)) + channel
    if data:
        body += b"\x22" + varint(len(data)) + data
    body += b"\x28" + varint(timestamp)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


def nats_slice(channel: bytes, payloads: Iterator[bytes]) -> tuple[bytes, bytes]:
    """A slice's data and index files."""
    dat, idx = [struct.pack("<I", 1)], [struct.pack("<I", 1)]
    offset = 4
    for sequence, data in enumerate(payloads, 1):
        timestamp = START_NS + sequence * 1000
        record = nats_record(sequence, channel, data, timestamp)
        entry = struct.pack("<QqqI", sequence, offset, timestamp, len(record) - 8)
        dat.append(record)
        idx.append(entry + struct.pack("<I", zlib.crc32(entry)))
        offset += len(record)
    return b"".join(dat), b"".join(idx)


def nats_store(folder: Path, channels: dict[str, tuple[bytes, bytes]]) -> Path:
    """A store with one slice a channel."""
    folder.mkdir(parents=True)
    server = b"".join(
        bytes([number << 3 | 2]) + varint(len(text)) + text
        for number, text in enumerate((b"bench", b"_STAN.discover.bench", b"_STAN.pub.bench", b"_STAN.sub.bench"), 1)
    )
    (folder / "server.dat").write_bytes(struct.pack("<III", 1, len(server), zlib.crc32(server)) + server)
    (folder / "clients.dat").write_bytes(struct.pack("<I", 1))
    for name, (dat, idx) in channels.items():
        (folder / name).mkdir()
        (folder / name / "subs.dat").write_bytes(struct.pack("<I", 1))
        (folder / name / "msgs.1.dat").write_bytes(dat)
        (folder / name / "msgs.1.idx").write_bytes(idx)
    return folder


def driver_folder(folder: Path, counter_count: int) -> Path:
    """A media driver's folder: a ``cnc.dat`` of the usual size, mostly a hole, with counters of publications."""
    folder.mkdir(parents=True)
    ring, broadcast, room, errors = (1 << 20) + 768, (1 << 20) + 128, 65_536, 4 << 20
    lengths = ring, broadcast, room * 512, room * 128, errors
    with (folder / "cnc.dat").open("wb") as file:
        file.write(struct.pack("<iiiiii", 512, *lengths))
        file.write(struct.pack("<qqqi", 10_000_000_000, START_NS // 1_000_000, 4711, 4096))
        file.seek(128 + ring + broadcast)
        for number in range(counter_count):
            channel = b"aeron:udp?endpoint=localhost:24325|alias=stream-%d" % number
            key = struct.pack("<qiii", number, SESSION_ID, STREAM_ID, len(channel)) + channel
            label = b"snd-pos: %d %d %d %s" % (number, SESSION_ID, STREAM_ID, channel)
            file.write(struct.pack("<iiq112si380s", 1, 2, (1 << 63) - 1, key, len(label), label))
        file.seek(128 + ring + broadcast + room * 512)
        for number in range(counter_count):
            file.write(struct.pack("<qqqq96x", number << 20, number, 1, 0))
        file.truncate((128 + sum(lengths) + 4095) & ~4095)
    return folder
