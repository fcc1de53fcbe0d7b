"""Stores to export, and what an export's files hold."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

from everlog import jlog
from everlog.aeron import archive


def options(*paths: Path, **more: str) -> dict[str, str]:
    return {"paths": json.dumps([str(path) for path in paths]), **more}


def journal(path: Path, first: int, end: int) -> Path:
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        jlog.create(path)
    with jlog.Writer(path) as writer:
        for number in range(first, end):
            writer.append(b"%d" % number)
    return path


def record(path: Path, first: int, end: int) -> Path:
    """Messages into recording 0, which is made or extended."""
    with archive.create(path, segment_length=65536, exist_ok=True) as store:
        stream_options = {"term_length": 65536} if not store.recordings() else {}
        begin = store.start_recording if stream_options else store.extend_recording
        arguments = ("aeron:ipc", 1) if stream_options else (0,)
        with begin(*arguments, **stream_options) as recorder:
            for number in range(first, end):
                recorder.append(b"%d" % number + b"x" * 700)
    return path


def payloads(folder: Path) -> list[bytes]:
    """What the files hold, whoever reads them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: list[bytes] = []
    for file in sorted(folder.glob("store=*/*/*/*")):
        if file.suffix == ".parquet":
            found += pq.ParquetFile(file).read(["payload"]).column(0).to_pylist()
        elif file.suffix == ".arrow":
            found += pa.ipc.open_file(file).read_all().column("payload").to_pylist()
        else:
            found += [base64.b64decode(json.loads(line)["payload"]) for line in file.read_text().splitlines()]
    return found


def numbers(folder: Path) -> Counter[int]:
    return Counter(int(payload.rstrip(b"x")) for payload in payloads(folder))


def once(count: int) -> Counter[int]:
    return Counter(range(count))
