"""Launching a driver in a child process and in-process: it is ready when the call returns, and gone after it is
closed or its parent dies."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.driver.embedded import EmbeddedDriver
from everlog.aeron.transport.driver.folder import DriverIsActive
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import TerminateDriver, encode
from everlog.core.files.storage import LocalStorage
from everlog.errors import EverlogError, UsageError, WriteFailed

SMALL: dict[str, Any] = {
    "counter_values_buffer_length": 1 << 20,
    "ipc_term_buffer_length": 64 << 10,
    "dir_delete_on_shutdown": True,
}
SECONDS = 20.0


@pytest.fixture
def folder() -> Iterator[str]:
    """A driver's folder, in shared memory if the system has it."""
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-driver-", dir=shared)
    yield os.path.join(parent, "driver")
    shutil.rmtree(parent, ignore_errors=True)


def await_that(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_done():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def round_trip(folder: str) -> list[bytes]:
    """The messages that a client gets of its own publication."""
    found: list[bytes] = []
    with (
        Aeron.connect(folder) as aeron,
        aeron.add_subscription("aeron:ipc", 1) as subscription,
        aeron.add_exclusive_publication("aeron:ipc", 1) as publication,
    ):
        publication.send_many([b"one", b"two"])
        await_that(lambda: bool(subscription.poll(lambda payload, header: found.append(payload))) or len(found) == 2)
        await_that(lambda: len(found) == 2 or bool(subscription.poll(lambda payload, header: found.append(payload))))
    return found


@pytest.mark.parametrize("in_process", [False, True], ids=["child", "in-process"])
def test_a_driver_serves_when_the_call_returns_and_is_gone_when_it_is_closed(folder: str, in_process: bool) -> None:
    with MediaDriver.launch(dir=folder, in_process=in_process, **SMALL) as driver:
        assert (driver.dir, driver.is_running) == (folder, True)
        assert (driver.pid == os.getpid()) is in_process
        with CncFile.open(LocalStorage(folder)) as cnc:
            assert (cnc.header.pid, cnc.is_live(int(time.time() * 1000))) == (driver.pid, True)
        assert round_trip(folder) == [b"one", b"two"]
        assert not driver.wait(0.01)
    assert not driver.is_running
    assert driver.wait(0)
    assert not os.path.exists(folder)
    driver.close()


@pytest.mark.parametrize("mode", ["SHARED", "SHARED_NETWORK", "DEDICATED"])
def test_agents_have_threads_as_the_mode_says(folder: str, mode: str) -> None:
    with MediaDriver.launch(dir=folder, in_process=True, threading_mode=ThreadingMode(mode), **SMALL):
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("aeron-md-")}
        assert round_trip(folder) == [b"one", b"two"]
    expected = {
        "SHARED": {"aeron-md-shd"},
        "SHARED_NETWORK": {"aeron-md-net", "aeron-md-cnd"},
        "DEDICATED": {"aeron-md-snd", "aeron-md-rcv", "aeron-md-cnd"},
    }
    assert names == expected[mode]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("aeron-md-")]


def test_an_invoked_driver_runs_when_it_is_called_and_has_no_thread(folder: str) -> None:
    configuration = Configuration(dir=folder, threading_mode=ThreadingMode.INVOKER, **SMALL)
    with EmbeddedDriver(configuration, lambda text: None) as driver:
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aeron-md-")]
        with Aeron.connect(folder) as aeron:
            added = aeron.async_add_publication("aeron:ipc", 1)
            await_that(lambda: driver.do_work() >= 0 and added.done)
            assert added.result().stream_id == 1
    assert not os.path.exists(folder)
    with pytest.raises(UsageError, match=r"aeron\.threading\.mode=INVOKER needs in_process=True"):
        MediaDriver.launch(dir=folder, threading_mode=ThreadingMode.INVOKER)


@pytest.mark.parametrize("in_process", [False, True], ids=["child", "in-process"])
def test_a_second_driver_is_refused_and_the_first_goes_on(folder: str, in_process: bool) -> None:
    with MediaDriver.launch(dir=folder, **SMALL) as first:
        with pytest.raises(DriverIsActive, match="an active media driver"):
            MediaDriver.launch(dir=folder, in_process=in_process, **SMALL)
        assert first.is_running
        assert round_trip(folder) == [b"one", b"two"]


def test_settings_are_checked_before_anything_is_started(folder: str) -> None:
    with pytest.raises(UsageError, match=r"aeron\.mtu\.length"):
        MediaDriver.launch(dir=folder, mtu_length=33)
    with pytest.raises(UsageError, match="unknown option 'mtu_lenght'"):
        MediaDriver.launch(dir=folder, mtu_lenght=64)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="a configuration or settings, not both"):
        MediaDriver.launch(Configuration(dir=folder), mtu_length=64)
    assert not os.path.exists(folder)


def test_warnings_of_a_child_come_to_its_parent(folder: str) -> None:
    os.makedirs(folder)
    warnings: list[str] = []
    with MediaDriver.launch(dir=folder, dir_warn_if_exists=True, warn=warnings.append, **SMALL):
        assert warnings == [f"{folder} exists"]


def test_a_child_is_in_its_parents_session_and_out_of_reach_of_its_ctrl_c(folder: str) -> None:
    with MediaDriver.launch(dir=folder, **SMALL) as driver:
        assert driver.pid is not None
        assert os.getsid(driver.pid) == os.getsid(0)
        assert os.getpgid(driver.pid) == driver.pid != os.getpgid(0)
        status = Path(f"/proc/{driver.pid}/status").read_text()
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
        for number in (signal.SIGINT, signal.SIGTTOU):  # signal 1 is bit 0
            assert ignored >> (number - 1) & 1


PARENT = """
import os, sys
from everlog.aeron.transport.driver.media_driver import MediaDriver
driver = MediaDriver.launch(dir=sys.argv[1], dir_delete_on_shutdown=True, counter_values_buffer_length=1 << 20)
print(driver.pid, flush=True)
os.read(0, 1)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_child_ends_and_tidies_up_when_its_parent_is_gone(folder: str, number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.send_signal(number)
    parent.wait(SECONDS)
    await_that(lambda: not is_alive(pid))
    assert not os.path.exists(folder)
    parent.stdin.close()
    parent.stdout.close()


def test_a_driver_that_was_killed_is_not_running_and_the_next_one_may_have_its_folder(folder: str) -> None:
    with MediaDriver.launch(dir=folder, **SMALL) as driver:
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.wait(SECONDS)
        assert not driver.is_running
    assert os.path.exists(os.path.join(folder, "cnc.dat"))
    with pytest.raises(DriverIsActive, match=r"heartbeat \d+ ms ago"):
        MediaDriver.launch(dir=folder, **SMALL)
    with MediaDriver.launch(dir=folder, dir_delete_on_start=True, **SMALL):
        assert round_trip(folder) == [b"one", b"two"]


@pytest.mark.long
@pytest.mark.parametrize("validator", ["deny", "allow"])
@pytest.mark.parametrize("in_process", [False, True], ids=["child", "in-process"])
def test_a_client_may_end_the_driver_where_that_is_allowed(folder: str, in_process: bool, validator: str) -> None:
    with MediaDriver.launch(dir=folder, in_process=in_process, termination_validator=validator, **SMALL) as driver:
        commands = ManyToOneRingBuffer(CncMemory.map(Path(folder)).to_driver)
        assert commands.write(*encode(TerminateDriver(commands.next_correlation_id(), -1, b"")))
        assert driver.wait(SECONDS if validator == "allow" else 0.3) is (validator == "allow")


def test_no_room_for_the_files_is_an_error_and_leaves_nothing(folder: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(WriteFailed, match=r"cnc\.dat: .*room for \d+ bytes"):
            MediaDriver.launch(dir=folder, in_process=True, **SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not os.path.exists(folder)


def test_a_child_that_can_not_begin_says_why(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(EverlogError, match="the media driver exited with code 1 at startup"):
        MediaDriver.launch(dir=folder)
