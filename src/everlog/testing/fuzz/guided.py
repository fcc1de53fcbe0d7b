"""Fuzzing guided by coverage: ``python -m everlog.testing.fuzz.guided GOLDEN SURFACE``.

atheris (libFuzzer) mutates one file of a store to reach ever more of the code; each mutated store is opened, described,
verified and read. The Python twins run instead of the compiled modules, because atheris sees each of their branches. A
surface is one kind of file, and its golden file is the first input. libFuzzer writes each failing input as ``crash-*``
to the current folder; give that file as an argument to run it again.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from everlog.errors import EverlogError, UsageError
from everlog.testing.storage.memory import MemoryStorage

MAX_FILE_BYTES = 8192
"""The length to which a store's files are cut, so that reading them does not take most of the time."""
RUN_TIMEOUT_S = 30
MAX_MEMORY_BYTES = 4 << 30
"""Limit of the address space: code that needs more fails with a ``MemoryError``, which counts as a finding."""


@dataclass(frozen=True, slots=True)
class Surface:
    """A file of a golden store. ``family`` is given when the store is opened, so that the files by which a family is
    detected may be damaged."""

    family: str
    archive: str
    file: str
    offset: int = 0


_NATS = "nats_streaming/compacted.tar.gz"
_ARCHIVE = "aeron/archive-crash/crash-crc.tar.gz"
_CLUSTER = "aeron/cluster-killed/killed-leader.tar.gz"
_DRIVER = "aeron/transport/aeron-dir.tar.gz"
SURFACES = {
    "jlog-metastore": Surface("jlog", "jlog/basic/log.tar.gz", "metastore"),
    "jlog-segment": Surface("jlog", "jlog/basic/log.tar.gz", "00000000"),
    "jlog-index": Surface("jlog", "jlog/basic/log.tar.gz", "00000000.idx"),
    "jlog-checkpoint": Surface("jlog", "jlog/basic/log.tar.gz", "cp.616c706861"),
    "jlog-compressed": Surface("jlog", "jlog/lz4/log.tar.gz", "00000000"),
    "jlog-buffer": Surface("jlog", "jlog/precommit_materialized/log.tar.gz", "pre_commit"),
    "nats-server": Surface("nats-streaming", _NATS, "server.dat"),
    "nats-subscriptions": Surface("nats-streaming", _NATS, "c/subs.dat"),
    "nats-slice": Surface("nats-streaming", _NATS, "c/msgs.1.dat"),
    "nats-index": Surface("nats-streaming", _NATS, "c/msgs.1.idx"),
    "aeron-catalog": Surface("aeron-archive", _ARCHIVE, "archive.catalog"),
    "aeron-mark-file": Surface("aeron-archive", _ARCHIVE, "archive-mark.dat"),
    "aeron-segment": Surface("aeron-archive", _ARCHIVE, "0-0.rec"),
    "aeron-recording-log": Surface("aeron-cluster", _CLUSTER, "recording.log"),
    "aeron-node-state": Surface("aeron-cluster", _CLUSTER, "node-state.dat"),
    "aeron-cluster-mark-file": Surface("aeron-cluster", _CLUSTER, "cluster-mark.dat"),
    "aeron-loss-report": Surface("aeron-driver", _DRIVER, "loss-report.dat"),
}
"""The kinds of files that parsers read from outside."""


def base_of(surface: Surface, golden: Path) -> dict[str, bytes]:
    """Return the store's files by name, each cut to :data:`MAX_FILE_BYTES`."""
    files = MemoryStorage.of_tar(golden / surface.archive).files
    if surface.family == "aeron-cluster":
        files = {name.removeprefix("cluster/"): data for name, data in files.items()}
    if surface.family == "aeron-driver":
        files = {name: data for name, data in files.items() if name == surface.file}
    return {name: bytes(data[:MAX_FILE_BYTES]) for name, data in files.items()}


def with_input(files: dict[str, bytes], name: str, data: bytes) -> dict[str, bytes]:
    """Return the store's files with the fuzzer's input in the file ``name``. The input's first byte decides whether the
    rest replaces the whole file or its first bytes."""
    whole, part = data[:1], data[1:]
    if whole and whole[0] & 1:
        return {**files, name: part}
    return {**files, name: part + files[name][len(part) :]}


def exercise(files: dict[str, bytes], family: str) -> None:
    """Open, describe, verify and read a store. Opening may raise only :class:`EverlogError`, the rest nothing."""
    from everlog.stores import open_store

    try:
        store = open_store(MemoryStorage(files), family=family)
    except EverlogError:
        return
    with store:
        store.info()
        store.warnings()
        store.verify()
        for stream in store.streams(include_all=True):
            for batch in store.scan(stream.name, columns=["payload", "address"], on_fault=lambda fault: None):
                batch.to_list("payload")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fuzz one surface. Does not return: libFuzzer ends the process, with status 0 if it found nothing."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.fuzz.guided", description=__doc__)
    parser.add_argument("golden", type=Path, help="the folder with the golden stores")
    parser.add_argument("surface", choices=sorted(SURFACES))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("inputs", nargs="*", help="files to run once instead")
    chosen = parser.parse_args(arguments)
    surface = SURFACES[chosen.surface]
    if os.environ.get("EVERLOG_PURE_PYTHON") != "1":
        # Compiled loops don't report which branches ran; twins are chosen at the first import, so start again.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "everlog.testing.fuzz.guided", *(arguments or sys.argv[1:])],
            {**os.environ, "EVERLOG_PURE_PYTHON": "1"},
        )
    import atheris

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    files = base_of(surface, chosen.golden)
    if surface.file not in files:
        raise UsageError(str(chosen.golden / surface.archive), found=f"no {surface.file}", expected="a golden store")
    with atheris.instrument_imports(include=["everlog"]):
        exercise(files, surface.family)
    corpus = Path(tempfile.mkdtemp(prefix="everlog-fuzz-"))
    start = files[surface.file].rstrip(b"\0")[: MAX_FILE_BYTES // 2]
    for index, data in enumerate((b"\1" + start, b"\0" + start)):
        (corpus / str(index)).write_bytes(data)
    flags = [
        f"-max_total_time={chosen.seconds}",
        f"-timeout={RUN_TIMEOUT_S}",
        "-rss_limit_mb=0",  # the limit would count memory that the parent used before it started this process
        f"-seed={chosen.seed}",
        "-max_len=4096",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    runs = chosen.inputs or [str(corpus)]
    atheris.Setup(
        ["guided_fuzz", *flags, *runs],
        lambda data: exercise(with_input(files, surface.file, data), surface.family),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
