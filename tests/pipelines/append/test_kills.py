"""A process that commits batches to a folder on disk is killed at random moments, while another one writes to the same
journal: each message is there once.

``EVERLOG_WRITING_KILLS=500`` kills it so often.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from everlog import jlog, open_store
from everlog.core.files.writable import LocalWritableStorage
from everlog.pipelines.append import messages, notes
from everlog.pipelines.append.commits import Transaction
from everlog.pipelines.append.options import parse_write_options
from everlog.pipelines.append.staging import part_name, stage

KILLS = int(os.environ.get("EVERLOG_WRITING_KILLS", "6"))
QUERY = "1738ea29-450b-4b9a-ad39-a41da0a1b08e"
ROWS = 3000
FOREIGN = b"of another writer"
OPTIONS = {
    "journal": {"family": "jlog", "create": "true", "segmentLength": "64k"},
    "recording": {
        "family": "aeron-archive",
        "create": "true",
        "termLength": "64k",
        "segmentLength": "64k",
        "livenessTimeout": "0",
    },
}


def payload(batch: int, number: int) -> bytes:
    return b"%d.%d " % (batch, number) + bytes([97 + number % 26]) * (number % 7 * (30 if number % 50 else 400))


def commit_on_and_on(path: str, options: dict[str, str]) -> None:
    """Batch after batch, from the one behind the last that is done; each time its rows in another order."""
    messages.CHUNK_BYTES = 20_000
    chosen = parse_write_options({"path": path, **options})
    storage = chosen.staging_storage()
    while True:
        note = notes.read_note(storage, QUERY)
        batch = 0 if note is None else note.done + 1
        order = random.sample(range(ROWS), ROWS)
        parts = []
        for partition in range(2):
            listed = [payload(batch, number) for number in order[partition::2]]
            columns = [pa.array(listed, pa.binary()), pa.nulls(len(listed), pa.int64())]
            staged = pa.RecordBatch.from_arrays(columns, names=["payload", "number"])
            name = part_name(notes.batch_key(QUERY, batch), partition, os.urandom(8).hex())
            part = stage(storage, name, partition, [staged])
            assert part is not None
            parts.append(part)
        chosen.committer().commit(parts, Transaction(QUERY, batch))


def write_on_and_on(path: str) -> None:
    with jlog.Writer(path, durability="written") as writer:
        while True:
            writer.append(FOREIGN)
            time.sleep(0.002)


def wait_for_another(note: Path) -> None:
    """Return when the note is another one."""
    before, deadline = note.stat().st_ino if note.exists() else None, time.monotonic() + 30
    while time.monotonic() < deadline and (not note.exists() or note.stat().st_ino == before):
        time.sleep(0.001)


@pytest.mark.long
@pytest.mark.parametrize("kind", list(OPTIONS))
@pytest.mark.timeout(60 + 10 * KILLS)
def test_a_committing_process_killed_again_and_again_leaves_each_message_once(kind: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    path, options = tmp_path / kind, OPTIONS[kind]
    other = None
    if kind == "journal":
        jlog.create(path, segment_bytes=64 << 10)
        other = context.Process(target=write_on_and_on, args=(str(path),))
        other.start()
    folder = Path(f"{path}.everlog-staging")
    half_done = 0
    try:
        for _ in range(KILLS):
            process = context.Process(target=commit_on_and_on, args=(str(path), options))
            process.start()
            assert process.pid is not None
            wait_for_another(folder / f"{QUERY}{notes.NOTE_SUFFIX}")
            time.sleep(random.random() * 0.3)
            assert process.is_alive()
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            with contextlib.suppress(OSError):
                half_done += '"plan"' in (folder / f"{QUERY}{notes.NOTE_SUFFIX}").read_text()
    finally:
        if other is not None:
            other.kill()
            other.join()
    note = notes.read_note(LocalWritableStorage(folder), QUERY)
    assert note is not None
    last = note.done if note.plan is None else note.plan.batch
    chosen = parse_write_options({"path": str(path), **options})
    chosen.committer().commit([], Transaction(QUERY, last))
    with open_store(path) as store:
        assert [str(fault) for fault in store.verify().faults if fault.severity.value == "fault"] == []
        stream = "journal" if kind == "journal" else "0"
        counts = Counter(record.payload for record in store.read(stream))
    counts.pop(FOREIGN, None)
    expected = {payload(batch, number) for batch in range(last + 1) for number in range(ROWS)}
    assert set(counts) == expected
    assert max(counts.values()) == 1
    left = {notes.batch_of(name, QUERY) for name in os.listdir(folder) if name.endswith(".staged")}
    assert left <= {last + 1}, "parts of the batch that comes next"
    print(f"{kind}: {KILLS} kills, {half_done} of them in an append, {last + 1} batches")
