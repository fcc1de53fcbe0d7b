"""The compiled recorder's system calls, traced, and cut wherever a crash can: what was acknowledged is there when the
archive is opened again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions, DurabilityName
from everlog.aeron.family_options import Checksum
from everlog.core.files.writable import LocalWritableStorage
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingFile, CrashingStorage
from tests.aeron.archive.recorded import faults, quiet
from tests.aeron.archive.writing.traced_recorder import stream

SHIM = Path(__file__).with_name("traced_calls.c")
PAGE = 4096
POWER_CUTS = 2
"""At each moment, each with a seed of its own."""
END = stream()[-1][0] + int.from_bytes(stream()[-1][1][:4], "little")


@dataclass(frozen=True, slots=True)
class Call:
    """A system call that changed something: ``number`` is an offset or a size, ``data`` what was written."""

    what: str
    name: str
    number: int
    data: bytes


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("tracing system calls needs Linux and gcc")
    made = tmp_path_factory.mktemp("shim") / "traced_calls.so"
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", "-o", made, SHIM, "-ldl", "-lpthread"], check=True)
    return made


def traced(shim: Path, folder: Path, durability: DurabilityName, checksum: Checksum) -> list[Call]:
    """What a recorder does to the folder."""
    trace = folder.with_name("trace")
    with open(trace, "wb") as file:
        environment = os.environ | {
            "LD_PRELOAD": str(shim),
            "TRACED_FOLDER": str(folder),
            "TRACED_FD": str(file.fileno()),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = [sys.executable, "-m", "tests.aeron.archive.writing.traced_recorder", str(folder)]
        command += [durability, checksum, str(file.fileno())]
        subprocess.run(command, env=environment, check=True, pass_fds=[file.fileno()], timeout=60)
    return list(calls(trace.read_bytes()))


def calls(trace: bytes) -> Iterator[Call]:
    at = 0
    while at < len(trace):
        end = trace.index(b"\n", at)
        what, name, number, _, length = trace[at:end].decode().split(" ")
        at = end + 1 + int(length)
        yield Call(what, name, int(number), trace[end + 1 : at])


class Replayed:
    """The traced calls, done again on a folder that keeps no more than it must. ``check`` is called after each, and at
    each end of a page inside a write, with what was acknowledged by then."""

    def __init__(self, storage: CrashingStorage) -> None:
        self.storage = storage
        self.acknowledged: int | None = None
        self._files: dict[str, CrashingFile] = {}

    def run(self, call: Call) -> Iterator[str]:
        storage, name = self.storage, call.name
        if call.what == "acknowledged":
            self.acknowledged = call.number
        elif call.what == "create":
            self._files[name] = storage.open_writable(name, create=True, exclusive=True)
        elif call.what == "write":
            at = call.number
            while at < call.number + len(call.data):
                end = min((at // PAGE + 1) * PAGE, call.number + len(call.data))
                self._file(name).write_at(at, call.data[at - call.number : end - call.number])
                yield f"write of {name} to {end}"
                at = end
            return
        elif call.what == "truncate":
            self._file(name).truncate(call.number)
        elif call.what == "sync":
            if name == ".":
                storage.sync_folder()
            else:
                self._file(name).sync()
        else:
            raise AssertionError(f"{call.what} of {name}: not expected of a recorder")
        yield f"{call.what} of {name}"

    def _file(self, name: str) -> CrashingFile:
        if name not in self._files:
            self._files[name] = self.storage.open_writable(name)
        return self._files[name]


def lost(storage: CrashingStorage, acknowledged: int | None, options: ArchiveOptions) -> str | None:
    """Open the archive, and say what is wrong with its recording."""
    with Archive.open(storage, options) as archive:
        found = [recording.recording_id for recording in archive.recordings()]
        if acknowledged is None and not found:
            return None
        stop = archive.stop_position(0)
        if stop is None or (acknowledged is not None and stop < acknowledged):
            return f"stops at {stop}, acknowledged {acknowledged}"
        base = -1
        for position, content in stream():
            if position >= (acknowledged or 0):
                break
            segment = position // (64 << 10)
            if segment != base:
                data, base = storage.read_all(f"0-{segment * (64 << 10)}.rec"), segment
            at = position % (64 << 10)
            there = bytearray(data[at : at + len(content)])
            if options.checksum != "none":
                there[12:16] = content[12:16]
            if there != content:
                return f"another frame at {position}"
        with archive.extend_recording(0) as recorder:
            recorder.append(b"after the crash")
    return None


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)


@pytest.mark.parametrize("checksum", ["none", "crc32"])
@pytest.mark.parametrize("durability", ["written", "synced"])
def test_nothing_acknowledged_is_lost_wherever_the_calls_are_cut(
    shim: Path, tmp_path: Path, series: Series, durability: DurabilityName, checksum: Checksum
) -> None:
    options = ArchiveOptions(
        durability=durability, checksum=checksum, segment_length=64 << 10, catalog_capacity=4096, liveness_timeout_s=0
    )
    folder = tmp_path / "archive"
    folder.mkdir()
    Archive.create(LocalWritableStorage(folder), options).close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = traced(shim, folder, durability, checksum)
    looped = done.pop()
    assert looped.what == "looped"
    if durability == "written":
        assert looped.number > 10
        assert max(len(call.data) for call in done if call.name == "0-0.rec") > 4 * PAGE
    else:
        assert looped.number == 0
        assert sum(call.what == "sync" and call.name.endswith(".rec") for call in done) > 20
    replayed, moment, problems = Replayed(CrashingStorage(before)), 0, []
    for call in done:
        for what in replayed.run(call):
            moment += 1
            if moment % series.stride and call is not done[-1]:
                continue
            killed = replayed.storage.kill()
            after = [("killed", killed)]
            if durability == "synced":
                seeds = range(moment * POWER_CUTS, (moment + 1) * POWER_CUTS)
                after += [(f"power cut {seed}", replayed.storage.crash(seed)) for seed in seeds]
            for how, storage in after:
                if found := lost(storage, replayed.acknowledged, options):
                    problems.append(f"{moment}, after {what}: {how}: {found}")
                elif how == "killed" and (found_faults := faults(storage)):
                    problems.append(f"{moment}, after {what}: {how}: {found_faults}")
    assert problems == []
    assert moment > 80
    assert replayed.acknowledged == END
    ours, theirs = replayed.storage.kill(), {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: ours.read_all(name) for name in ours.names()} == theirs  # the trace is all that was done
