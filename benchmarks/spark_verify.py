"""``everlog spark verify`` on one core against two.

Eight recordings of a GiB each, which share their files: what is measured is checking, with the files in the page cache,
and not the disk. With checksums all bytes are looked at; without, headers only: that takes less than half a second, of
which Spark's own part is a tenth or two, and waits for memory.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.generate import TERM_BYTES, aeron_archive, descriptor, write_catalog
from benchmarks.lines import Line, seconds
from everlog.spark.discovery import FoundStore
from everlog.spark.pipelines.verify import StoreToVerify, verify_stores
from everlog.spark.session import session_on

RECORDINGS = 8
RECORDING_BYTES = int(os.environ.get("EVERLOG_BENCH_RECORDING_BYTES", 1 << 30))
PAYLOAD_BYTES = 1024
RUNS = 3
TARGET = ">=1.7"


def lines() -> Iterator[Line | str]:
    """GiB a second on two cores, and the ratio to one."""
    size = RECORDINGS * RECORDING_BYTES / (1 << 30)
    for name, checksum in (("", "crc32"), ("-headers", "none")):
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            archive = linked_recordings(Path(folder) / "archive", checksums=checksum != "none")
            one, two = (_seconds(archive, cores, checksum) for cores in (1, 2))
        yield f"an archive of {size:g} GiB, checksum {checksum}: {one:.2f} s on local[1], {two:.2f} s on local[2]"
        yield Line(f"spark-verify{name}-2-cores", size / two, "GiB/s", TARGET, one / two)


def linked_recordings(folder: Path, *, checksums: bool) -> Path:
    """An archive whose recordings have the same frames, by hard links."""
    aeron_archive(folder, PAYLOAD_BYTES, RECORDING_BYTES, checksums=checksums)
    for file in list(folder.glob("0-*.rec")):
        for number in range(1, RECORDINGS):
            os.link(file, folder / f"{number}-{file.name.split('-')[1]}")
    stop = max(1, RECORDING_BYTES // TERM_BYTES) * TERM_BYTES
    write_catalog(folder, [descriptor(number, stop, checksum=checksums) for number in range(RECORDINGS)])
    return folder


def _seconds(archive: Path, cores: int, checksum: str) -> float:
    """Median of a few runs, in a session whose workers have started."""
    store = StoreToVerify(FoundStore(str(archive), "aeron-archive"), {"checksum": checksum})
    spark = session_on(f"local[{cores}]", "everlog benchmark", settings={"spark.driver.memory": "1g"})
    try:

        def verify() -> None:
            (row,) = verify_stores(spark, [store])
            assert row["streams"] == RECORDINGS
            assert [fault["code"] for fault in row["faults"]] == ["mark-file-missing"]

        verify()
        return statistics.median(seconds(verify) for _ in range(RUNS))
    finally:
        spark.stop()
