"""Every write, sync, truncation, opening, publication and removal of an archive fails once, and for a while: what was
acknowledged is there, what was refused is not read, and work goes on when the disk is whole again."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.files.writable import LocalWritableStorage, WritableStorage
from everlog.errors import CorruptData, EverlogError, UsageError, WriteFailed
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.recorded import CHANNEL, STREAM, Ledgers, faults, opened, payload, quiet, recordings


class Application:
    """What records, and does not give up: after an error it goes on with the same recorder if that works, else it stops
    and extends, else it opens the archive anew. ``refused`` are the payloads of appends that raised."""

    def __init__(self, storage: WritableStorage, ledgers: Ledgers, **options: Any) -> None:
        self.storage = storage
        self.ledgers = ledgers
        self.options = options
        self.refused: list[bytes] = []
        self._archive: Archive | None = None
        self.recorder: Recorder | None = None
        self.recording_id = -1

    def tried(self, call: Callable[[], Any]) -> Any:
        """What a call returns; ``None`` where it raised."""
        try:
            return call()
        except EverlogError as error:
            self.ledgers.errors.append(error)
            return None

    def until_it_works(self, call: Callable[[], Any]) -> Any:
        for _ in range(50):
            found = self.tried(call)
            if found is not None:
                return found
        raise AssertionError(f"it never works again: {self.ledgers.errors[-1]}")

    @property
    def archive(self) -> Archive:
        if self._archive is None:
            self._archive = self.until_it_works(lambda: opened(self.storage, **self.options))
        return self._archive

    def start(self) -> None:
        self.recorder = self.until_it_works(lambda: self.archive.start_recording(CHANNEL, STREAM))
        self.recording_id = self.recorder.recording_id

    def stop(self) -> None:
        assert self.recorder is not None
        self.tried(self.recorder.stop)
        self.recorder = None

    def extend(self) -> None:
        for _ in range(50):
            try:
                self.recorder = self.archive.extend_recording(self.recording_id, session_id=-77)
                return
            except WriteFailed as error:
                self.ledgers.errors.append(error)
            except UsageError as error:
                if error.found not in ("an active recording", "no stop position"):
                    raise
                self.close()  # its stop position could not be written: recovery does it
        raise AssertionError(f"it can't be extended any more: {self.ledgers.errors[-1]}")

    def close(self) -> None:
        if self._archive is not None:
            self.tried(self._archive.close)
        self._archive = self.recorder = None

    def go_on(self) -> None:
        """After an error."""
        assert self.recorder is not None
        if self.tried(self.recorder.flush) is None:
            self.stop()
            self.extend()

    def append(self, message: bytes) -> None:
        if not self.ledgers.of(self.recording_id).append(self.recorder, message):
            self.refused.append(message)
            self.go_on()

    def append_many(self, messages: list[bytes]) -> None:
        ledger = self.ledgers.of(self.recording_id)
        if not ledger.append_many(self.recorder, messages):
            self.refused += messages[getattr(ledger.errors[-1], "appended", 0) :]
            self.go_on()

    def offer(self, messages: list[bytes]) -> None:
        """Offered, and flushed: those before the recorded position are acknowledged."""
        assert self.recorder is not None
        ledger, places = self.ledgers.of(self.recording_id), []
        try:
            for message in messages:
                ledger.give(message)
                places.append((self.recorder.offer(message), message))
            self.recorder.flush()
        except EverlogError as error:
            ledger.errors.append(error)
            self.go_on()
            return
        for position, message in places:
            assert position <= self.recorder.recorded_position
            ledger.acknowledge(message)


def numbers(first: int, count: int) -> list[bytes]:
    return [payload(number, 350) for number in range(first, first + count)]


def recording(app: Application) -> None:
    """Everything that records, over several segments."""
    app.start()
    for message in numbers(0, 26):
        app.append(message)
    app.append_many(numbers(26, 30))
    app.offer(numbers(56, 12))
    app.append(payload(68))
    app.append(b"zeros over the ends of pages" + bytes(7000))
    app.offer(numbers(69, 30))
    app.tried(app.recorder.sync)  # type: ignore[union-attr]
    app.append(payload(99))
    app.stop()


def extending(app: Application) -> None:
    """Stopped and extended, with the archive open and opened anew; a second recording beside."""
    app.start()
    app.append_many(numbers(0, 10))
    app.stop()
    app.extend()
    app.append(payload(10))
    app.stop()
    app.close()
    app.extend()
    app.append_many(numbers(11, 20))
    first, app.recorder = app.recorder, None
    app.start()
    app.append(payload(1000))
    app.tried(first.stop)  # type: ignore[union-attr]
    app.append(payload(1001))
    app.stop()


def left_active(app: Application) -> None:
    """Recovered, as its process died."""
    app.start()
    app.append_many(numbers(0, 30))
    archive = app.archive
    for recorder in list(archive._recordings.recorders.values()):
        recorder.abandon()
    app.close()
    app.extend()
    app.append(payload(30))


FRAMES: dict[int, dict[str, Any]] = {1: {}, 4: {"checksum": "crc32c"}}
"""Where even what failed can't be cut away, only a checksum tells it from what was written."""
SCENARIOS = {"recording": recording, "extending": extending, "left active": left_active}


def check(storage: CrashingStorage, app: Application, context: str) -> None:
    """Who opens the archive next can go on, and a fresh reader finds what was acknowledged, whole and in order."""
    with opened(storage, **app.options) as archive:
        for recording_id, ledger in app.ledgers.ledgers.items():
            assert archive.recording(recording_id).stop_position is not None, context
            with archive.extend_recording(recording_id) as recorder:
                assert ledger.append(recorder, b"after all of it"), context
    assert app.ledgers.complaints(recordings(storage)) == [], context
    assert faults(storage) == [], context
    assert [name for name in storage.names() if name.startswith(".everlog")] == [], context


def not_read(app: Application, storage: CrashingStorage) -> list[bytes]:
    """Of what was refused, what is read nevertheless."""
    found = {message for messages in recordings(storage).values() for message in messages}
    return [message for message in app.refused if message in found]


@pytest.mark.parametrize("count", [1, 4], ids=["once", "for a while"])
@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_fails_nothing_acknowledged_is_lost_and_nothing_is_in_the_way(
    name: str, durability: str, count: int, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(monkeypatch)
    tried = swallowed = 0
    for fail_at in series.numbers():
        inner = CrashingStorage()
        error = (errno.ENOSPC, errno.EIO)[fail_at % 2]
        part = (None, 0, 1, 17)[fail_at % 4]
        storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at, count=count, error=error, part_bytes=part))
        app = Application(storage, Ledgers(), durability=durability, flush_interval_s=3600, **FRAMES[count])
        SCENARIOS[name](app)
        app.close()
        if not storage.failed:
            break
        context = f"{name}, {durability}, operation {fail_at} ({', '.join(storage.failed)}) failed"
        for raised in app.ledgers.all_errors:
            assert isinstance(raised, WriteFailed), f"{context}: {raised!r}"
            assert raised.found == os.strerror(error).lower(), f"{context}: {raised}"
            assert raised.where, context
        swallowed += not app.ledgers.all_errors
        check(inner, app, context)
        if not any(failed.startswith("sync") for failed in storage.failed):
            assert not_read(app, inner) == [], context
        tried += 1
    assert app.ledgers.all_errors == []
    check(inner, app, name)
    assert fail_at > 40
    assert swallowed < tried / 2, f"{swallowed} of {tried}"  # most faults reach the caller


def test_an_extension_that_fails_leaves_the_recording_stopped_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    for durability in ("written", "synced"):
        inner = CrashingStorage()
        disk = FaultyWrites(inner)
        with opened(disk, durability=durability) as archive:
            with archive.start_recording(CHANNEL, STREAM) as recorder:
                recorder.append(b"before")
            failures = 0
            while True:
                disk.operation_count, disk.faults = 0, WriteFaults(fail_at=failures)
                try:
                    recorder = archive.extend_recording(0)
                except WriteFailed:
                    disk.faults = WriteFaults()
                    assert archive.stop_position(0) == 64, f"{durability}, {disk.failed[-1]}"
                    assert recordings(inner.kill()) == {0: [b"before"]}
                    failures += 1
                else:
                    break
            disk.faults = WriteFaults()
            recorder.append(b"behind")
            assert failures > 2
        assert recordings(inner) == {0: [b"before", b"behind"]}


def test_a_recording_that_can_not_be_begun_is_an_empty_one_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    inner = CrashingStorage()
    disk = FaultyWrites(inner)
    with opened(disk, durability="synced") as archive:
        failures = 0
        while True:
            disk.operation_count, disk.faults = 0, WriteFaults(fail_at=failures)
            try:
                recorder = archive.start_recording(CHANNEL, STREAM)
            except WriteFailed:
                disk.faults = WriteFaults()
                assert {r.stop_position for r in archive.recordings()} <= {0}, disk.failed[-1]
                failures += 1
            else:
                break
        disk.faults = WriteFaults()
        recorder.append(b"the first")
        assert failures > 4
        with archive.extend_recording(0) if recorder.recording_id else recorder as first:
            first.append(b"goes on")
    assert faults(inner) == []


def test_nothing_of_a_damaged_catalog_or_of_its_recordings_is_changed() -> None:
    inner = CrashingStorage()
    archive = opened(inner)
    for _ in range(3):
        archive.start_recording(CHANNEL, STREAM).append(b"x" * 100)
    killed = inner.kill()
    with killed.open_writable("archive.catalog") as file:
        file.write_at(32 + 256, b"\xff\xff\xff\x7f")  # the second entry's length
    with killed.open_writable("0-0.rec") as file:
        file.write_at(160, b"torn")
    before = {name: killed.read_all(name) for name in killed.names() if name != "archive-mark.dat"}
    with pytest.raises(CorruptData, match=r"archive\.catalog"):
        opened(killed)
    assert {name: killed.read_all(name) for name in before} == before


# On a real disk, where single messages go the short way


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(append: Callable[[bytes], Any], kept: list[bytes]) -> None:
    """Until it fails; ``kept`` are the messages that were acknowledged."""
    for number in range(10_000):
        message = b"%d." % number + b"x" * (number % 1300)
        append(message)
        kept.append(message)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("durability", ["written", "synced"])
def test_a_full_disk_is_a_clear_error_and_work_goes_on_when_there_is_room(small_disk: Path, durability: str) -> None:
    options: dict[str, Any] = {"segment_length": 1 << 20, "durability": durability}
    with archives.create(small_disk / "a", **options) as archive:
        (small_disk / "filler").write_bytes(bytes(1 << 20))
        recorder = archive.start_recording("aeron:ipc?term-length=1m", STREAM)
        kept: list[bytes] = []
        with pytest.raises(WriteFailed, match=os.strerror(errno.ENOSPC).lower()):
            fill(recorder.append, kept)
        with pytest.raises(WriteFailed, match="free space"):
            recorder.append_many([b"y" * 4000] * 100)
        count = len(kept)
        end = recorder.recorded_position
        found = [record.payload for record in archive.replay(0)]
        assert found[:count] == kept
        assert set(found[count:]) <= {b"y" * 4000}
        (small_disk / "filler").unlink()
        assert recorder.append(b"there is room") > end
        recorder.stop()
        extended = archive.extend_recording(0)
        extended.append(b"and more")
        found = [record.payload for record in archive.replay(0)]
        assert found[:count] == kept
        assert found[-2:] == [b"there is room", b"and more"]
    assert faults(LocalWritableStorage(small_disk / "a")) == []


@pytest.mark.usefixtures("kernel")
def test_a_limit_of_file_sizes_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Not even what failed can be cut away then, for the file can't be made as long as it was."""
    folder, kept = tmp_path / "a", list[bytes]()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    options: dict[str, Any] = {"segment_length": 2 << 20, "liveness_timeout_s": 0}
    archive = archives.create(folder, **options)
    recorder = archive.start_recording("aeron:ipc?term-length=2m", STREAM)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_100_000, limits[1]))
    try:
        with pytest.raises(WriteFailed, match="ulimit"):
            fill(recorder.append, kept)
        with pytest.raises(WriteFailed, match="ulimit"):
            recorder.append(b"no more")
        with pytest.raises(WriteFailed, match="ulimit"):
            archive.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with archives.open_archive(folder, **options) as again:
        assert again.recovered != []
        with again.extend_recording(0) as extended:
            extended.append(b"behind")
        assert [record.payload for record in again.replay(0)] == [*kept, b"behind"]
    assert faults(LocalWritableStorage(folder)) == []
