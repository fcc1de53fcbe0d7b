"""Archives with very many recordings: is the time of ten times as many ten times as long?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import everlog
from benchmarks.lines import Line, paired, where
from everlog.aeron import archive

FEW, MANY = 1_000, 10_000
SEGMENT_BYTES = 64 << 10
CHANNEL = "aeron:ipc?term-length=64k"


def create(folder: Path, count: int) -> None:
    """An archive with recordings of one message each."""
    shutil.rmtree(folder, ignore_errors=True)
    with archive.create(folder, segment_length=SEGMENT_BYTES) as store:
        for number in range(count):
            with store.start_recording(CHANNEL, number) as recorder:
                recorder.append(b"message")


def list_all(folder: Path) -> None:
    """As a reader."""
    with everlog.open_store(folder) as store:
        if not store.streams():
            raise SystemExit("no recordings")


def open_all(folder: Path) -> None:
    """As the next owner."""
    with archive.open_archive(folder) as store:
        if not store.recordings():
            raise SystemExit("no recordings")


def lines() -> Iterator[Line | str]:
    """Creating, listing and opening; the ratio is that of the times, divided by that of the counts."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        few, many = Path(temporary) / "few", Path(temporary) / "many"
        yield f"{MANY} recordings beside {FEW}, on {where(Path(temporary))}"
        works: tuple[tuple[str, Callable[[Path, int], None]], ...] = (
            ("create", create),
            ("list", lambda folder, _: list_all(folder)),
            ("open", lambda folder, _: open_all(folder)),
        )
        for name, work in works:
            took, ratio = paired(
                lambda work=work: work(many, MANY),  # type: ignore[misc]
                lambda work=work: work(few, FEW),  # type: ignore[misc]
            )
            times_as_long = 1 / ratio / (MANY / FEW)
            yield Line(f"archive-{name}-10k-recordings", took * 1e3, "ms", "<=1.5", times_as_long)
