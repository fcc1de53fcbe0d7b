"""``everlog spark verify`` on one core against two.

Eight recordings of a GiB each, which share their files: what is measured is checking, with the files in the page cache,
and not the disk. With checksums all bytes are looked at; without, headers only: that takes less than half a second, of
which Spark's own part is a tenth or two, and waits for memory. Each of the two sessions is in a process of its own
(``python -m benchmarks.spark_verify ARCHIVE CORES CHECKSUM``), and they take turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.generate import TERM_BYTES, aeron_archive, descriptor, write_catalog
from benchmarks.lines import Line, paired_rates, seconds
from benchmarks.transport_peer import Process
from everlog.discovery import FoundStore
from everlog.spark.jobs.verify import StoreToVerify, verify_stores
from everlog.spark.session import session_on

RECORDINGS = 8
RECORDING_BYTES = int(os.environ.get("EVERLOG_BENCH_RECORDING_BYTES", 1 << 30))
PAYLOAD_BYTES = 1024
WARM_UPS = 2
TARGET = ">=1.7"


def lines() -> Iterator[Line | str]:
    """GiB a second on two cores, and the ratio to one."""
    size = RECORDINGS * RECORDING_BYTES / (1 << 30)
    for name, checksum in (("", "crc32"), ("-headers", "none")):
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder, ExitStack() as stack:
            archive = linked_recordings(Path(folder) / "archive", checksums=checksum != "none")
            one, two = (_rate(stack, archive, cores, checksum) for cores in (1, 2))
            value, ratio = paired_rates(two, one, warm_ups=WARM_UPS)
        yield f"an archive of {size:g} GiB, checksum {checksum}: {value / ratio * size:.2f} GiB/s on local[1]"
        yield Line(f"spark-verify{name}-2-cores", value * size, "GiB/s", TARGET, ratio)


def _rate(stack: ExitStack, archive: Path, cores: int, checksum: str) -> Callable[[], float]:
    """How often a second a session on so many cores verifies the archive, each time it is called."""
    command = [sys.executable, "-m", "benchmarks.spark_verify", str(archive), str(cores), checksum]
    process = stack.enter_context(Process(f"verify on {cores} cores", command))

    def measure() -> float:
        process.say("verify")
        return 1 / process.seconds()

    return measure


def linked_recordings(folder: Path, *, checksums: bool) -> Path:
    """An archive whose recordings have the same frames, by hard links."""
    aeron_archive(folder, PAYLOAD_BYTES, RECORDING_BYTES, checksums=checksums)
    for file in list(folder.glob("0-*.rec")):
        for number in range(1, RECORDINGS):
            os.link(file, folder / f"{number}-{file.name.split('-')[1]}")
    stop = max(1, RECORDING_BYTES // TERM_BYTES) * TERM_BYTES
    write_catalog(folder, [descriptor(number, stop, checksum=checksums) for number in range(RECORDINGS)])
    return folder


def main(arguments: list[str]) -> None:
    """``ARCHIVE CORES CHECKSUM``: for each line of stdin verify once, and say how long it took."""
    archive, cores, checksum = arguments
    store = StoreToVerify(FoundStore(archive, "aeron-archive"), {"checksum": checksum})
    spark = session_on(f"local[{cores}]", "everlog benchmark", settings={"spark.driver.memory": "1g"})

    def verify() -> None:
        (row,) = verify_stores(spark, [store])
        assert row["streams"] == RECORDINGS
        assert [fault["code"] for fault in row["faults"]] == ["mark-file-missing"]

    print("ready", flush=True)
    for _ in sys.stdin:
        print(f"ok {RECORDINGS} {seconds(verify):.9f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
