"""everlog run archive, as a process."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.client import AeronArchive
from everlog.cli.app import run
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import connect, mark_of, record

SECONDS = 30
SMALL = (
    *("-D", "aeron.counters.buffer.length=1m", "-D", "aeron.ipc.term.buffer.length=64k"),
    *("-D", "aeron.archive.segment.file.length=128k", "-D", "aeron.archive.low.storage.space.threshold=0"),
)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "everlog", "run", "archive", *map(str, arguments)]


def without_aeron() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("AERON_")}


def ended(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run that ends by itself."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=without_aeron() | environment,
    )


@pytest.fixture
def shared() -> Iterator[Path]:
    """For a driver, in shared memory where there is such memory."""
    parent = tempfile.mkdtemp(prefix="everlog-run-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield Path(parent)
    shutil.rmtree(parent, ignore_errors=True)


class Running:
    """An archive that runs; ``lines`` are the first that it printed."""

    def __init__(self, *arguments: object, lines: int = 2) -> None:
        self.process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=without_aeron()
        )
        assert self.process.stderr is not None
        self.lines = [self.process.stderr.readline().rstrip("\n") for _ in range(lines)]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Exit code and the rest of what it printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        assert out == ""
        return self.process.returncode, err

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def recorded_in(client: AeronArchive) -> int:
    with client:
        return record(client, [b"one", b"two"])


def test_it_serves_with_a_driver_of_its_own_until_sigterm(shared: Path, tmp_path: Path) -> None:
    folder, driver = tmp_path / "archive", shared / "driver"
    given = ("--driver", "--aeron-dir", driver, *SMALL, "-D", "aeron.archive.id=77")
    with Running(folder, *given, "--control-channel", "aeron:udp?endpoint=127.0.0.1:0") as running:
        first, second = running.lines
        assert first == f"everlog: archive 77 is running in {folder}, process {running.process.pid}"
        assert re.fullmatch(
            r"everlog: it serves aeron:udp\?endpoint=127\.0\.0\.1:[1-9]\d*, aeron:ipc\?term-length=64k "
            rf"of the driver in {driver}",
            second,
        )
        position = recorded_in(connect(driver))
        second_one = ended(folder, "--aeron-dir", driver)
        assert (second_one.returncode, second_one.stdout, second_one.stderr.count("\n")) == (2, "", 1)
        assert second_one.stderr.startswith(f"everlog: {folder} is already open in another everlog process")
        assert running.end(signal.SIGTERM) == (0, "everlog: archive stopped\n")
    assert mark_of(folder).header.activity_timestamp == -1
    with archives.open_archive(folder) as closed:
        assert closed.recovered == []
        assert closed.stop_position(0) == position


@pytest.mark.long
def test_it_serves_beside_a_driver_until_ctrl_c_and_tells_what_it_recovers(tmp_path: Path) -> None:
    archives.create(tmp_path / "archive", segment_length=128 << 10).close()
    recorder = archives.open_archive(tmp_path / "archive")
    recorder.start_recording("aeron:ipc?term-length=64k", 1).append(b"one")
    recorder.abandon()
    with (
        in_process_driver() as driver,
        Running(tmp_path / "archive", "--aeron-dir", driver.dir, *SMALL[4:], lines=3) as running,
    ):
        assert (
            running.lines[0]
            == f"everlog: {tmp_path}/archive: set the stop positions of 1 recordings in archive.catalog"
        )
        assert running.lines[2] == f"everlog: it serves aeron:ipc?term-length=64k of the driver in {driver.dir}"
        assert running.end(signal.SIGINT) == (0, "everlog: archive stopped\n")


@pytest.mark.long  # ten seconds are the client's patience with its driver
def test_it_ends_with_its_driver_in_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with in_process_driver() as driver:
        running = Running(tmp_path, "--aeron-dir", driver.dir, *SMALL[4:])
    with running:
        _, err = running.process.communicate(timeout=SECONDS)
        assert running.process.returncode == 2
        assert err.splitlines()[-1].startswith("everlog: ")
        assert "driver" in err.splitlines()[-1]
        assert "archive stopped" not in err


@pytest.mark.long
def test_without_a_driver_there_is_one_line(tmp_path: Path) -> None:
    done = ended(tmp_path / "archive", "--aeron-dir", tmp_path / "nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"no media driver runs in {tmp_path}/nowhere" in done.stderr
    assert "everlog run driver" in done.stderr


# What is printed and refused before anything starts; in this process.


@contextmanager
def handlers_kept() -> Iterator[None]:
    """The command sets handlers of signals and of the log, and how long a thread runs."""
    log = logging.getLogger("everlog.aeron.archive")
    handlers, propagate = log.handlers[:], log.propagate
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    seconds = sys.getswitchinterval()
    yield
    sys.setswitchinterval(seconds)
    log.handlers[:], log.propagate = handlers, propagate
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in os.environ:
        if name.startswith("AERON_"):
            monkeypatch.delenv(name)
    return monkeypatch


def test_all_properties_can_be_printed_and_the_last_source_wins(
    alone: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "archive.properties"
    path.write_text(
        "aeron.archive.dir=/from/file\naeron.archive.id=1\naeron.archive.control.stream.id=2\n"
        "aeron.archive.segment.file.lenght=1m\naeron.mtu.length=8k\n"
    )
    alone.setenv("AERON_ARCHIVE_ID", "3")
    alone.setenv("AERON_ARCHIVE_CONTROL_STREAM_ID", "4")
    given = ["--print", "--config", str(path), "-D", "aeron.archive.id=5", "--aeron-dir", "/a/driver"]
    assert run(["run", "archive", *given]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert {
        "aeron.archive.dir=/from/file",
        "aeron.archive.id=5",
        "aeron.archive.control.stream.id=4",
        "aeron.archive.conductor.cycle.threshold=100000000ns",
        "aeron.dir=/a/driver",
    } <= set(lines)
    assert not any("mtu.length=8" in line for line in lines)
    assert printed.err.splitlines() == [
        f"everlog: warning: aeron.archive.segment.file.lenght ({path}) is unknown and has no effect; "
        "did you mean aeron.archive.segment.file.length?"
    ]
    # FOLDER is the last word; the driver's properties are there if it runs one.
    assert run(["run", "archive", "/named", *given, "--driver"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"aeron.archive.dir=/named", "aeron.mtu.length=8192", "aeron.dir=/a/driver"} <= set(lines)
    assert not os.path.exists("/named")


def test_what_is_printed_can_be_read_as_configuration(
    alone: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["-D", "aeron.archive.id=5", "-D", "aeron.archive.connect.timeout=3s", "/named", "--driver"]
    assert run(["run", "archive", "--print", *given]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "all").write_text(printed)
    assert run(["run", "archive", "--print", "--driver", "--config", str(tmp_path / "all")]) == 0
    assert capsys.readouterr() == (printed, "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-D", "aeron.archive.segment.file.length=7"], "aeron.archive.segment.file.length"),
        (["-D", "aeron.archive.id"], "property on the command line must be NAME=VALUE, not 'aeron.archive.id'"),
        (["--config", "/nowhere/x.properties"], "no such file or directory: /nowhere/x.properties"),
        (["--control-channel", "aeron:ipc"], "aeron.archive.control.channel"),
        (["-D", "aeron.archive.dir.delete.on.start=maybe"], "aeron.archive.dir.delete.on.start"),
        (["-D", "aeron.archive.threading.mode=SOMETIMES"], "aeron.archive.threading.mode"),
        (["-D", "aeron.archive.security.file=/nowhere/rules", "--driver"], "no such file or directory: /nowhere/rules"),
        (["-D", "aeron.archive.authenticator.supplier=org.example.Mine"], "aeron.archive.authenticator.supplier"),
        (["--driver", "-D", "aeron.mtu.length=7"], "aeron.mtu.length must be from 64 to 65504, not 7"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    alone: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    alone.chdir(tmp_path)
    with handlers_kept():
        assert run(["run", "archive", *given]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("everlog: ")
    assert said in printed.err
    assert list(tmp_path.iterdir()) == []
