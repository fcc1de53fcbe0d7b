"""Aeron's own tools on our driver's folder, and ours on the real one's: the same lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import JavaClient, expected, tool
from tests.interop.transport.our_transport import await_that, free_port, in_thread

pytestmark = pytest.mark.long

CHANNEL = "aeron:ipc?term-length=64k|alias=tools"
SIZES = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8192, 64, 1408)
COUNTER = re.compile(r" *(\d+): +([\d,-]+) - (.*)")
TIMES = range(26, 34)
"""Ids of counters of cycle times, which move by themselves."""
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3}[+-]\d{4})?|\d\d:\d\d:\d\d")


def java(jar: Path, folder: str, name: str, *arguments: str, **properties: str) -> str:
    done = tool(jar, f"io.aeron.samples.{name}", *arguments, properties={"aeron.dir": folder} | properties)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def ours(folder: str, *arguments: str) -> str:
    """In the zone that Java prints times in."""
    command = [sys.executable, "-m", "everlog", "driver", folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def counters(text: str) -> dict[int, tuple[str, str]]:
    """Label of each, and the value of those that don't move by themselves."""
    found = {}
    for line in text.splitlines():
        match = COUNTER.fullmatch(line)
        if match:
            number, value, label = int(match[1]), match[2], match[3]
            is_time = number in TIMES or "heartbeat" in label
            found[number] = label, "" if is_time else value
    return found


@pytest.fixture(params=["java", "ours"])
def folder(request: pytest.FixtureRequest, start_java_client: Callable[..., JavaClient]) -> str:
    """Of a running driver with a stream, a counter of a client's and an error."""
    name = "start_java_driver" if request.param == "java" else "start_our_driver"
    found = str(request.getfixturevalue(name)().dir)
    client = start_java_client(found)
    client.subscribe("s", CHANNEL, 10)
    client.publish("s", CHANNEL, 10, exclusive=True)
    client.await_connected("s")
    messages = Messages(seed=1, sizes=SIZES, count=20)
    client.offer("s", Messages(seed=1, sizes=SIZES, count=12))
    assert client.poll("s", 12) == expected(Messages(seed=1, sizes=SIZES, count=12))
    client.offer("s", Messages(seed=1, sizes=SIZES, first=12, count=messages.count - 12))
    client.add_counter("c", 1001, "mine", -5)
    with pytest.raises(Exception, match="mtu"):
        client.publish("bad", "aeron:udp?endpoint=localhost:1|mtu=7", 10)
    time.sleep(0.3)  # positions and limits have settled
    return found


def test_counters_are_the_same_by_both_tools(aeron_jar: Path, folder: str) -> None:
    # A client of Java's adds its version to its heartbeat's label with its first keep-alive.
    deadline = time.monotonic() + 5
    while "client-heartbeat: id=" in (mine := ours(folder, "stat")) and " name= version=" not in mine:
        assert time.monotonic() < deadline, "the client's heartbeat has no version"
        time.sleep(0.1)
    theirs, mine = java(aeron_jar, folder, "AeronStat", "watch=false"), ours(folder, "stat")
    assert counters(mine) == counters(theirs)
    labels = [label for label, _ in counters(theirs).values()]
    assert "mine" in labels
    assert sum(label.startswith(("pub-pos", "pub-lmt", "sub-pos")) for label in labels) == 3
    assert theirs.splitlines()[0].split("pid")[1].split(",")[0] == mine.splitlines()[0].split("pid")[1].split(",")[0]


@pytest.mark.parametrize(
    ("name", "verb"), [("StreamStat", "stream-stat"), ("BacklogStat", "backlog-stat"), ("LossStat", "loss-stat")]
)
def test_streams_are_the_same_by_both_tools(aeron_jar: Path, folder: str, name: str, verb: str) -> None:
    theirs = java(aeron_jar, folder, name).split()
    assert theirs == ours(folder, verb).split()
    assert len(theirs) > 3


def test_errors_are_the_same_by_both_tools(aeron_jar: Path, folder: str) -> None:
    theirs, mine = java(aeron_jar, folder, "ErrorStat"), ours(folder, "error-stat")
    assert mine.split() == theirs.split()
    assert "mtu" in theirs
    assert "1 distinct errors observed." in theirs


def test_log_buffers_are_the_same_by_both_tools(aeron_jar: Path, folder: str) -> None:
    (name,) = os.listdir(os.path.join(folder, "publications"))
    path = os.path.join(folder, "publications", name)
    # What the subscriber read is zeros again.
    theirs = java(aeron_jar, folder, "LogInspector", path, **{"aeron.log.inspector.scanOverZeroes": "true"})
    mine = ours(folder, "log-inspect", f"publications/{name}", "--scan-over-zeroes")
    dated = re.compile(r"^.* Inspection dump", re.MULTILINE)
    assert dated.sub("", mine) == dated.sub("", theirs)
    # Those that were not read; what was read is zeros, as far as the driver has come with that.
    assert theirs.count("frame-length=1408") >= 4


def test_the_process_is_the_same_by_both_tools(aeron_jar: Path, folder: str) -> None:
    assert java(aeron_jar, folder, "DriverTool", "pid") == ours(folder, "pid")
    theirs, mine = java(aeron_jar, folder, "DriverTool"), ours(folder)
    assert DATE.sub("", mine).split() == DATE.sub("", theirs).split()


def test_losses_are_the_same_by_both_tools(aeron_jar: Path, request: pytest.FixtureRequest) -> None:
    from tests.interop.transport.java_transport import losing

    source_driver = request.getfixturevalue("start_java_driver")(losing(0.1))
    sink_driver = request.getfixturevalue("start_our_driver")()
    start = request.getfixturevalue("start_java_client")
    source, sink = start(source_driver.dir), start(sink_driver.dir)
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink.subscribe("s", channel, 10)
    source.publish("s", channel, 10)
    messages = Messages(seed=1, sizes=SIZES, count=600)
    poll = in_thread(sink.poll, "s", 600)
    source.offer("s", messages)
    assert poll() == expected(messages)
    theirs = java(aeron_jar, str(sink_driver.dir), "LossStat")
    assert theirs.split() == ours(str(sink_driver.dir), "loss-stat").split()
    assert "1 loss entries" in theirs
    (row,) = [line.split(",") for line in theirs.splitlines() if line[:1].isdigit() and "," in line]
    assert int(row[0]) > 0
    assert int(row[1]) > 0
    assert row[6] == channel


@pytest.mark.parametrize("kind", ["java", "ours"])
def test_a_driver_is_ended_by_the_tool_of_the_other(aeron_jar: Path, request: pytest.FixtureRequest, kind: str) -> None:
    if kind == "java":
        allowing = {"aeron.driver.termination.validator": "io.aeron.driver.DefaultAllowTerminationValidator"}
        peer = request.getfixturevalue("start_java_driver")(allowing)
        ours(str(peer.dir), "terminate")
        assert peer.process.wait(30) == 7
        return
    driver: Any = request.getfixturevalue("start_our_driver")(termination_validator="allow")
    java(aeron_jar, str(driver.dir), "DriverTool", "terminate")
    await_that(lambda: not driver.is_running, "the driver's end")
