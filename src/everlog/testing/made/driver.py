"""Generates a media driver's folder of any size, from the format's description: for tests of what reading it costs."""

from __future__ import annotations

from pathlib import Path

from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.counters import (
    ALLOCATED,
    PUBLISHER_LIMIT,
    PUBLISHER_POSITION,
    RECEIVER_HWM,
    RECEIVER_POSITION,
)
from everlog.aeron.transport.format.layouts import (
    BroadcastTrailer,
    CncMetaData,
    CounterMetaData,
    CounterValue,
    LogMetaData,
    RingBufferTrailer,
    StreamKey,
)

TERM_LENGTH = 64 << 10
INITIAL_TERM_ID = 7
SESSION_ID, STREAM_ID = 77, 5
CHANNEL = b"aeron:ipc"
FRAME_LENGTH = 64
_NEVER = (1 << 63) - 1

Counter = tuple[int, int, int]
"""Type, registration id, value."""


def write_driver(folder: Path, *, publications: int = 0, images: int = 0) -> Path:
    """Write the folder of a driver that died, with a message of 32 bytes in each log buffer."""
    counters: list[Counter] = []
    for name, count in (("publications", publications), ("images", images)):
        (folder / name).mkdir(parents=True)
        for _ in range(count):
            registration_id = 100 + len(counters)
            is_image = name == "images"
            data = log_buffer(registration_id, is_image=is_image)
            (folder / name / f"{registration_id}.logbuffer").write_bytes(data)
            kinds = (RECEIVER_HWM, RECEIVER_POSITION) if is_image else (PUBLISHER_POSITION, PUBLISHER_LIMIT)
            counters += [(kind, registration_id, FRAME_LENGTH) for kind in kinds]
    (folder / "cnc.dat").write_bytes(cnc(counters))
    return folder


def log_buffer(registration_id: int, *, is_image: bool) -> bytes:
    """Return a log buffer whose first term has one frame. An image's log buffer has no tails."""
    frame = DataHeader.pack(
        frame_length=FRAME_LENGTH,
        flags=0xC0,
        type=1,
        session_id=SESSION_ID,
        stream_id=STREAM_ID,
        term_id=INITIAL_TERM_ID,
    )
    tails = [INITIAL_TERM_ID << 32 | FRAME_LENGTH, INITIAL_TERM_ID - 2 << 32, INITIAL_TERM_ID - 1 << 32]
    metadata = LogMetaData.pack(
        tail_0=0 if is_image else tails[0],
        tail_1=0 if is_image else tails[1],
        tail_2=0 if is_image else tails[2],
        end_of_stream_position=_NEVER,
        correlation_id=registration_id,
        initial_term_id=INITIAL_TERM_ID,
        default_frame_header_length=DataHeader.size,
        mtu_length=1408,
        term_length=TERM_LENGTH,
        page_size=4096,
        default_header=DataHeader.pack(
            flags=0xC0, type=1, session_id=SESSION_ID, stream_id=STREAM_ID, term_id=INITIAL_TERM_ID
        ),
        log_type=2 if is_image else 1,
    )
    return (frame + bytes(range(32))).ljust(3 * TERM_LENGTH, b"\0") + metadata


def cnc(counters: list[Counter]) -> bytes:
    """Return a ``cnc.dat`` with these counters and room for one more."""
    metadata, values = b"", b""
    for kind, registration_id, value in counters:
        key = StreamKey.pack(
            registration_id=registration_id, session_id=SESSION_ID, stream_id=STREAM_ID, channel_length=len(CHANNEL)
        )
        metadata += CounterMetaData.pack(
            state=ALLOCATED, type_id=kind, free_for_reuse_deadline=_NEVER, key=key + CHANNEL, label_length=1, label=b"a"
        )
        values += CounterValue.pack(value=value, registration_id=registration_id, owner_id=1, reference_id=0)
    metadata += bytes(CounterMetaData.size)
    values += bytes(CounterValue.size)
    ring = bytes(256) + RingBufferTrailer.pack(consumer_heartbeat=1_700_000_000_000, correlation_counter=12)
    broadcast = bytes(256) + BroadcastTrailer.pack()
    errors = bytes(512)
    header = CncMetaData.pack(
        cnc_version=512,
        to_driver_buffer_length=len(ring),
        to_clients_buffer_length=len(broadcast),
        counters_metadata_buffer_length=len(metadata),
        counters_values_buffer_length=len(values),
        error_log_buffer_length=len(errors),
        client_liveness_timeout_ns=10_000_000_000,
        start_timestamp_ms=1_700_000_000_000,
        pid=4711,
        file_page_size=4096,
    )
    whole = header + ring + broadcast + metadata + values + errors
    return whole + bytes(-len(whole) % 4096)
