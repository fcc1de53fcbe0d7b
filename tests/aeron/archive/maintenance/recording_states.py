"""States of recordings for tests of what is decided on them: terms of 64 KiB, segments of 128 KiB."""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import CatalogEntry, read_entry
from everlog.aeron.archive.format.catalog_bytes import Descriptor, encode_entry
from everlog.aeron.archive.maintenance.recording_state import RecordingState, ReplayState

TERM = 64 << 10
SEGMENT = 128 << 10
STOPPED_AT = 1_700_000_000_000


def state(
    recording_id: int = 7,
    start: int = 0,
    stop: int | None = 3 * SEGMENT + 640,
    bases: tuple[int, ...] | None = None,
    *,
    status: str = "VALID",
    recorded: int | None = None,
    replays: tuple[int, ...] = (),
    others: tuple[str, ...] = (),
    **descriptor: Any,
) -> RecordingState:
    """A recording with the files that it has when nothing was detached. ``replays``: their positions."""
    values: dict[str, Any] = {
        "stop_timestamp": -1 if stop is None else STOPPED_AT,
        "initial_term_id": -3,
        "segment_file_length": SEGMENT,
        "term_buffer_length": TERM,
        "mtu_length": 1408,
        "session_id": 42,
        "stream_id": 1001,
    }
    text = "aeron:ipc"
    entry = read_entry(
        encode_entry(
            Descriptor(
                recording_id=recording_id,
                start_timestamp=0,
                start_position=start,
                stop_position=-1 if stop is None else stop,
                stripped_channel=text,
                original_channel=text,
                source_identity=text,
                **{**values, **descriptor},
            ),
            status,
        ),
        0,
    )
    assert isinstance(entry, CatalogEntry)
    end = recorded if stop is None else stop
    if bases is None:
        first = start // TERM * TERM
        bases = tuple(range(first, max(end or 0, first + 1), SEGMENT))
    open_replays = tuple(ReplayState(position, position // SEGMENT * SEGMENT) for position in replays)
    return RecordingState(recording_of(entry), bases, others, recorded, open_replays)
