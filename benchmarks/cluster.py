"""A cluster node's folder: its log decoded message by message into all columns, and a long recording log.

The log is a real store's: 64 MiB terms in an archive, opened, walked, decoded. One message in twenty is a timer, whose
fields become JSON; the others are session messages of 32 bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import everlog
from benchmarks.generate import INITIAL_TERM_ID, SEGMENT_BYTES, TERM_BYTES, descriptor, write_catalog
from benchmarks.lines import Line, median_seconds
from everlog.aeron.cluster.format.recording_log import encode_entry
from everlog.aeron.cluster.protocol.codec import encode
from everlog.aeron.cluster.protocol.log import TimerEvent
from everlog.aeron.cluster.protocol.sessions import SessionMessageHeader
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.layouts import DataHeader

STREAM_ID, SESSION_ID = 1001, -11
ENTRIES = 100_000
TERMS = 4
TARGET = 5.0
TIMESTAMP = 1_700_000_000_000
"""Million messages a second."""


def block() -> tuple[bytes, list[int]]:
    """Nineteen session messages and a timer, as frames; where each begins."""
    frames, starts = b"", []
    for number in range(20):
        message = (
            encode(TimerEvent(0, 1 << 40, TIMESTAMP))
            if number == 19
            else encode(SessionMessageHeader(0, number, TIMESTAMP)) + b"%032d" % number
        )
        starts.append(len(frames))
        frames += _frame(message)
    return frames, starts


def _frame(message: bytes) -> bytes:
    ids = {"session_id": SESSION_ID, "stream_id": STREAM_ID}
    frame = DataHeader.pack(frame_length=DataHeader.size + len(message), flags=0xC0, type=1, **ids) + message
    return frame.ljust((len(frame) + 31) // 32 * 32, b"\0")


def log_term(index: int) -> tuple[np.ndarray, int]:
    """A whole term of such blocks, padding at its end; how many messages are in it."""
    frames, starts = block()
    count = TERM_BYTES // len(frames)
    term = np.zeros(TERM_BYTES, dtype=np.uint8)
    term[: count * len(frames)] = np.tile(np.frombuffer(frames, dtype=np.uint8), count)
    words = term.view("<i4")
    at = (np.arange(count)[:, None] * len(frames) + np.array(starts)[None, :]).ravel()
    words[(at + DataHeader.field("term_offset").offset) // 4] = at
    words[(at + DataHeader.field("term_id").offset) // 4] = INITIAL_TERM_ID + index
    rest = count * len(frames)
    if rest < TERM_BYTES:
        term[rest : rest + DataHeader.size] = np.frombuffer(
            DataHeader.pack(
                frame_length=TERM_BYTES - rest,
                type=0,
                term_offset=rest,
                session_id=SESSION_ID,
                stream_id=STREAM_ID,
                term_id=INITIAL_TERM_ID + index,
            ),
            dtype=np.uint8,
        )
    return term, len(at)


def cluster_folder(folder: Path) -> tuple[Path, int]:
    """A node whose log has four terms of 64 MiB; how many messages are in it."""
    cluster, archive = folder / "cluster", folder / "archive"
    cluster.mkdir(parents=True)
    archive.mkdir()
    messages = 0
    for index in range(TERMS):
        base = index * TERM_BYTES // SEGMENT_BYTES * SEGMENT_BYTES
        with (archive / f"0-{base}.rec").open("ab") as file:
            term, count = log_term(index)
            file.write(term.data)
            messages += count
    write_catalog(archive, [descriptor(0, TERMS * TERM_BYTES)])
    entry = encode_entry(recording_id=0, leadership_term_id=0, term_base_log_position=0, log_position=-1)
    (cluster / "recording.log").write_bytes(entry)
    return cluster, messages


def decode(path: Path, expected: int) -> None:
    """Open, and decode the whole log into all of the family's columns."""
    with everlog.open_store(path) as store:
        names = [column.name for column in store.family_columns()]
        found = sum(batch.row_count for batch in store.scan("log", columns=names))
    if found != expected:
        raise SystemExit(f"decoded {found} of {expected} messages")


def open_recording_log(path: Path) -> None:
    """Open, read and sort the entries, list the streams."""
    with everlog.open_store(path) as store:
        assert isinstance(store, ClusterStore)
        if len(store.folder.recording_log.entries) != ENTRIES:
            raise SystemExit(f"{len(store.folder.recording_log.entries)} of {ENTRIES} entries")
        store.streams()


def lines() -> Iterator[Line]:
    """Messages a second, and seconds for a recording log of 100,000 terms."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        path, messages = cluster_folder(Path(folder) / "node")
        took = median_seconds(lambda: decode(path, messages))
        yield Line("cluster-log-all-columns", messages / took / 1e6, "M/s", f">={TARGET:g}")
        long = Path(folder) / "long"
        long.mkdir()
        entries = (
            encode_entry(recording_id=0, leadership_term_id=n, term_base_log_position=64 * n, log_position=64 * n + 64)
            for n in range(ENTRIES)
        )
        (long / "recording.log").write_bytes(b"".join(entries))
        yield Line("cluster-recording-log-100k", median_seconds(lambda: open_recording_log(long)), "s", "<=0.5")
