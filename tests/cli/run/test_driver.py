"""everlog run driver, everlog aeron pub and sub, everlog driver DIR terminate, as processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.cli.app import run

SECONDS = 30
SMALL = ("-D", "aeron.counters.buffer.length=1m", "-D", "aeron.ipc.term.buffer.length=64k")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "everlog", *map(str, arguments)]


def everlog(*arguments: object, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=SECONDS,
        env={key: value for key, value in os.environ.items() if not key.startswith("AERON_")} | environment,
    )


@pytest.fixture
def folder() -> Iterator[str]:
    """For a driver, in shared memory where there is such memory."""
    parent = tempfile.mkdtemp(prefix="everlog-driver-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield os.path.join(parent, "driver")
    shutil.rmtree(parent, ignore_errors=True)


@pytest.fixture
def driver(folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running one, ready."""
    allowing = ("-D", "aeron.driver.termination.validator=allow", "-D", "aeron.dir.delete.on.shutdown=true")
    process = subprocess.Popen(command("run", "driver", "--dir", folder, *SMALL, *allowing), stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"everlog: media driver %d is running in %s\n" % (process.pid, folder.encode())
    yield process
    process.kill()
    process.wait()
    process.stderr.close()


class Sub:
    """A subscriber that runs; what it prints is read while it does."""

    def __init__(self, folder: str, *options: object) -> None:
        arguments = command("aeron", "sub", "--dir", folder, *options)
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.output: tuple[bytes, bytes] = b"", b""
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        self.output = self.process.communicate(timeout=SECONDS)

    def printed(self) -> bytes:
        """All of it, when it has ended."""
        self.thread.join(SECONDS)
        assert self.process.returncode == 0
        assert self.output[1].startswith(b"everlog: ")
        return self.output[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_driver_ends_by_a_signal_and_tidies_up(
    folder: str, driver: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    driver.send_signal(number)
    assert driver.wait(SECONDS) == 0
    assert driver.stderr is not None
    assert driver.stderr.read() == b"everlog: media driver stopped\n"
    assert not os.path.exists(folder)


def test_a_driver_ends_when_it_is_asked_to(folder: str, driver: subprocess.Popen[bytes]) -> None:
    assert everlog("driver", folder, "terminate").returncode == 0
    assert driver.wait(SECONDS) == 0
    gone = everlog("driver", folder, "terminate")
    assert gone.returncode == 2
    assert b"no media driver here: %s" % folder.encode() in gone.stderr


def test_a_second_driver_is_one_line_and_exit_code_2(folder: str, driver: subprocess.Popen[bytes]) -> None:
    second = everlog("run", "driver", "--dir", folder)
    assert second.returncode == 2
    assert second.stderr.startswith(b"everlog: an active media driver uses %s: " % folder.encode())
    assert second.stderr.count(b"\n") == 1
    assert driver.poll() is None


def test_all_properties_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "driver.properties"
    path.write_text("aeron.mtu.length=8k\naeron.max.resend=7\naeron.archive.dir=/x\naeron.mut.length=1\n")
    done = everlog("run", "driver", path, "--print", "-D", "aeron.max.resend=9", AERON_TIMER_INTERVAL="2s")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert {"aeron.mtu.length=8192", "aeron.max.resend=9", "aeron.timer.interval=2000000000"} <= set(lines)
    assert [line.split("=")[0] for line in lines] == sorted(line.split("=")[0] for line in lines)
    (warning,) = done.stderr.decode().splitlines()
    assert warning == (
        f"everlog: warning: aeron.mut.length ({path}) is unknown and has no effect; did you mean aeron.mtu.length?"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-D", "aeron.mtu.length=7"], "aeron.mtu.length must be from 64 to 65504, not 7"),
        (["-D", "aeron.mtu.length"], "property on the command line must be NAME=VALUE, not 'aeron.mtu.length'"),
        (["/nowhere/x.properties"], "no such file or directory: /nowhere/x.properties"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(given: list[str], said: str) -> None:
    done = everlog("run", "driver", *given)
    assert (done.returncode, done.stderr.decode().count("\n")) == (2, 1)
    assert said in done.stderr.decode()
    assert given[-1].partition("=")[0] in done.stderr.decode()


def test_lines_that_are_published_are_the_lines_that_are_printed(folder: str, driver: subprocess.Popen[bytes]) -> None:
    text = b"".join(b"%d %s\n" % (n, b"x" * (n % 300)) for n in range(3000)) + b"\n\xff\x00last"
    sub = Sub(folder, "--until-end")
    pub = everlog("aeron", "pub", "--dir", folder, "--wait", SECONDS, stdin=text)
    assert (pub.returncode, pub.stderr) == (0, b"everlog: 3002 messages published\n")
    assert sub.printed() == text + b"\n"
    assert sub.output[1] == b"everlog: 3002 messages printed\n"


def test_any_bytes_go_through_in_blocks(folder: str, driver: subprocess.Popen[bytes]) -> None:
    data = os.urandom(300_001)
    sub = Sub(folder, "--until-end", "--raw", "--stream", "-7", "--channel", "aeron:ipc?term-length=1m")
    options = ("--stream", "-7", "--channel", "aeron:ipc?term-length=1m", "--block", "5000")
    assert everlog("aeron", "pub", "--dir", folder, "--wait", SECONDS, *options, stdin=data).returncode == 0
    assert sub.printed() == data


def test_json_tells_of_each_message_and_count_ends(folder: str, driver: subprocess.Popen[bytes]) -> None:
    sub = Sub(folder, "--json", "--count", "2")
    assert (
        everlog(
            "aeron", "pub", "--dir", folder, "--wait", SECONDS, "--delimiter", r"\0", stdin=b"one\0two\0three"
        ).returncode
        == 0
    )
    rows = [json.loads(line) for line in sub.printed().splitlines()]
    assert [(row["payload"], row["length"], row["crc32"], row["end_position"]) for row in rows] == [
        ("b25l", 3, f"{zlib.crc32(b'one'):08x}", 64),
        ("dHdv", 3, f"{zlib.crc32(b'two'):08x}", 128),
    ]
    assert {(row["stream_id"], row["reserved_value"]) for row in rows} == {(1001, 0)}
    assert len({(row["session_id"], row["term_id"]) for row in rows}) == 1


def test_a_number_of_messages_is_published_and_the_rest_left(folder: str, driver: subprocess.Popen[bytes]) -> None:
    sub = Sub(folder, "--until-end")
    assert (
        everlog("aeron", "pub", "--dir", folder, "--wait", SECONDS, "--count", "2", stdin=b"1\n2\n3\n").returncode == 0
    )
    assert sub.printed() == b"1\n2\n"


def test_what_was_published_before_a_message_that_is_too_long_is_told(
    folder: str, driver: subprocess.Popen[bytes]
) -> None:
    sub = Sub(folder, "--until-end")
    pub = everlog("aeron", "pub", "--dir", folder, "--wait", SECONDS, stdin=b"1\n2\n" + b"x" * 8193 + b"\n3\n")
    assert pub.returncode == 2
    told, reason = pub.stderr.decode().splitlines()
    assert told == "everlog: 2 messages published"
    assert "at most 8192 bytes" in reason
    assert sub.printed() == b"1\n2\n"


@pytest.mark.parametrize("options", [["--block", "2"], ["--delimiter", "|"]])
def test_what_is_there_is_published_before_more_comes(
    folder: str, driver: subprocess.Popen[bytes], options: list[str]
) -> None:
    sub = Sub(folder, "--count", "2")
    arguments = command("aeron", "pub", "--dir", folder, "--wait", SECONDS, *options)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as pub:
        assert pub.stdin is not None
        pub.stdin.write(b"1|2|")
        pub.stdin.flush()
        printed = sub.printed()  # stdin is still open
        pub.communicate(timeout=SECONDS)
    assert (pub.returncode, printed.replace(b"|", b"")) == (0, b"1\n2\n")


@pytest.mark.parametrize("length", ["nan", "inf", "1e10", "1e400", "x"])
@pytest.mark.parametrize(
    "command_line",
    [
        *(["aeron", "pub", "--wait"], ["aeron", "sub", "--wait"], ["aeron", "sub", "--timeout"]),
        *(["driver", "DIR", "stat", "--watch"], ["archive", "DIR", "purge", "0", "--script-timeout"]),
    ],
)
def test_a_length_of_time_is_one_that_can_be_waited_for(
    command_line: list[str], length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command_line, length]) == 2
    err = capsys.readouterr().err
    assert err.startswith(
        f"everlog: Invalid value for '{command_line[-1]}': '{length}' is not a number of seconds from"
    )
    assert err.count("\n") == 1


def test_who_waits_in_vain_says_for_what(folder: str, driver: subprocess.Popen[bytes]) -> None:
    pub = everlog("aeron", "pub", "--dir", folder, "--wait", "0.2", stdin=b"x\n")
    assert pub.returncode == 2
    said = "everlog: no subscriber on aeron:ipc within 0.2 s (--wait SECONDS waits longer)\n"
    assert pub.stderr.decode() == said
    sub = everlog("aeron", "sub", "--dir", folder, "--timeout", "0.2")
    assert (sub.returncode, sub.stdout) == (1, b"")
    assert sub.stderr == b"everlog: no message for 0.2 s\neverlog: 0 messages printed\n"


def test_without_a_driver_there_is_one_line(folder: str) -> None:
    begun = time.monotonic()
    for verb in ("pub", "sub"):
        done = everlog("aeron", verb, "--dir", folder, "--wait", "0.3")
        assert done.returncode == 2
        assert b"no media driver runs in %s" % folder.encode() in done.stderr
        assert b"everlog run driver" in done.stderr
        assert done.stderr.count(b"\n") == 1
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "given", [["pub", "--block", "9", "--delimiter", "x"], ["sub", "--json", "--raw"], ["sub", "--delimiter", "x"]]
)
def test_options_that_do_not_fit_are_refused(given: list[str]) -> None:
    assert everlog("aeron", *given).returncode == 2
