"""A media driver's folder made by hand: small, so that tests can damage each of its bytes."""

from __future__ import annotations

from everlog.aeron.layouts import DataHeader, ErrorEntry
from everlog.aeron.transport.format.layouts import (
    BroadcastTrailer,
    CncMetaData,
    CounterMetaData,
    CounterValue,
    LogMetaData,
    LossEntry,
    RingBufferTrailer,
)

TERM = 65536
INITIAL = 7
SESSION, STREAM = 77, 5
CHANNEL = b"aeron:ipc?alias=a"
NOT_FREE = (1 << 63) - 1
ERROR_TEXT = b"java.lang.IllegalStateException: made up\n\tat Somewhere.java:1\n"


def text(data: bytes) -> bytes:
    """A text behind its length."""
    return len(data).to_bytes(4, "little") + data


def stream_key(registration_id: int, channel: bytes = CHANNEL) -> bytes:
    """The key of a stream's counter."""
    ids = registration_id.to_bytes(8, "little") + SESSION.to_bytes(4, "little") + STREAM.to_bytes(4, "little")
    return ids + text(channel)


COUNTERS: list[tuple[int, bytes, bytes, int, int]] = [
    (0, (3).to_bytes(4, "little"), b"Failed offers", 12, 3),
    (12, stream_key(9), b"pub-pos (exclusive): 9 77 5 aeron:ipc?alias=a", TERM + 192, 9),
    (1, stream_key(9), b"pub-lmt: 9 77 5 aeron:ipc?alias=a", TERM + 32768, 9),
    (4, stream_key(10), b"sub-pos: 10 77 5 aeron:ipc @0", 64, 10),
    (3, stream_key(11), b"rcv-hwm: 11 77 5 aeron:ipc?alias=a", 192, 11),
    (5, stream_key(11), b"rcv-pos: 11 77 5 aeron:ipc?alias=a", 64, 11),
    (1777, b"own", b"a user's", -1, 0),
]
"""Type, key, label, value, registration id."""


def cnc(**fields: int) -> bytes:
    """``cnc.dat`` with those counters, room for one more, and an error. ``fields`` replace those of its metadata."""
    metadata = b"".join(
        CounterMetaData.pack(
            state=1,
            type_id=kind,
            free_for_reuse_deadline=NOT_FREE,
            key=key,
            label_length=len(label),
            label=label,
        )
        for kind, key, label, _, _ in COUNTERS
    )
    values = b"".join(
        CounterValue.pack(value=value, registration_id=registration_id, owner_id=1, reference_id=0)
        for _, _, _, value, registration_id in COUNTERS
    )
    error = ErrorEntry.pack(
        length=ErrorEntry.size + len(ERROR_TEXT),
        observation_count=2,
        last_observation_timestamp=2_000,
        first_observation_timestamp=1_000,
    )
    ring = bytes(256) + RingBufferTrailer.pack(consumer_heartbeat=1_700_000_000_000, correlation_counter=12)
    broadcast = bytes(256) + BroadcastTrailer.pack(tail_counter=8)
    values = values.ljust(128 * 8, b"\0")
    metadata = metadata.ljust(512 * 8, b"\0")
    errors = (error + ERROR_TEXT).ljust(512, b"\0")
    header = CncMetaData.pack(
        **{
            "cnc_version": 512,
            "to_driver_buffer_length": len(ring),
            "to_clients_buffer_length": len(broadcast),
            "counters_metadata_buffer_length": len(metadata),
            "counters_values_buffer_length": len(values),
            "error_log_buffer_length": len(errors),
            "client_liveness_timeout_ns": 10_000_000_000,
            "start_timestamp_ms": 1_700_000_000_000,
            "pid": 4711,
            "file_page_size": 4096,
        }
        | fields
    )
    whole = header + ring + broadcast + metadata + values + errors
    return whole + bytes(-len(whole) % 4096)


def losses() -> bytes:
    """``loss-report.dat`` with two entries."""
    found = b""
    for count, channel, source in ((3, b"aeron:udp?endpoint=a:1", b"127.0.0.1:5"), (1, b"aeron:udp?x", b"s")):
        entry = LossEntry.pack(
            observation_count=count,
            total_bytes_lost=count * 100,
            first_observation=1_000,
            last_observation=2_000,
            session_id=SESSION,
            stream_id=STREAM,
        )
        entry += text(channel)
        entry += bytes(-len(text(channel)) % 4) + text(source)
        found += entry + bytes(-len(entry) % 64)
    return found + bytes(256)


def frame(offset: int, payload: bytes, *, term_id: int = INITIAL, flags: int = 0xC0, kind: int = 1) -> bytes:
    """A data frame, padded to 32 bytes."""
    header = DataHeader.pack(
        frame_length=32 + len(payload),
        flags=flags,
        type=kind,
        term_offset=offset,
        session_id=SESSION,
        stream_id=STREAM,
        term_id=term_id,
    )
    return header + payload + bytes(-len(payload) % 32)


def log_buffer(
    terms: dict[int, bytes], registration_id: int, tails: tuple[int, int, int] = (0, 0, 0), **fields: int | bytes
) -> bytes:
    """A log buffer with these bytes at the starts of its terms. ``fields`` replace those of its metadata."""
    default = DataHeader.pack(flags=0xC0, type=1, session_id=SESSION, stream_id=STREAM, term_id=INITIAL)
    metadata = LogMetaData.pack(
        **{
            "tail_0": tails[0],
            "tail_1": tails[1],
            "tail_2": tails[2],
            "end_of_stream_position": NOT_FREE,
            "correlation_id": registration_id,
            "initial_term_id": INITIAL,
            "default_frame_header_length": 32,
            "mtu_length": 1408,
            "term_length": TERM,
            "page_size": 4096,
            "default_header": default,
            "log_type": 1 if any(tails) else 2,
        }
        | fields
    )
    return b"".join(terms.get(i, b"").ljust(TERM, b"\0") for i in range(3)) + metadata


def tail(term_id: int, offset: int) -> int:
    """A raw tail."""
    return term_id << 32 | offset


def publication(**fields: int | bytes) -> bytes:
    """Log buffer 9: its first term is full and cleaned but for the last two frames, the second has three frames."""
    first = bytes(TERM - 96) + frame(TERM - 96, b"a" * 20) + frame(TERM - 32, b"", kind=0)
    second = b"".join(frame(64 * i, b"%d" % i * 30, term_id=INITIAL + 1) for i in range(3))
    tails = tail(INITIAL, TERM + 64), tail(INITIAL + 1, 192), tail(INITIAL - 1, 0)
    return log_buffer({0: first, 1: second}, 9, tails, **{"active_term_count": 1} | fields)


def image(**fields: int | bytes) -> bytes:
    """Log buffer 11: a message, room for a frame that was lost, and another message."""
    return log_buffer({0: frame(0, b"first") + bytes(64) + frame(128, b"second")}, 11, **fields)


def folder() -> dict[str, bytes]:
    """All of it."""
    return {
        "cnc.dat": cnc(),
        "loss-report.dat": losses(),
        "publications/9.logbuffer": publication(),
        "images/11.logbuffer": image(),
    }
