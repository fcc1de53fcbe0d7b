"""A driver as a process of the system: it allocates and frees memory, runs out of memory, opens sockets, and loses
killed clients."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.error_codes import ErrorCode
from tests.aeron.transport.memory.mounted_memory import mounted

TERM = 64 << 10
LOG = 3 * TERM + 4096
SMALL: dict[str, Any] = {
    "counter_values_buffer_length": 1 << 20,
    "publication_term_buffer_length": TERM,
    "ipc_term_buffer_length": TERM,
    "publication_linger_timeout_ns": 0,
    "timer_interval_ns": 20_000_000,
    "counter_free_to_reuse_timeout_ns": 0,
}
SECONDS = 20.0


@pytest.fixture
def parent() -> Iterator[str]:
    """The parent of drivers' folders, in shared memory if the system has it."""
    folder = tempfile.mkdtemp(prefix="everlog-driver-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def full_memory(parent: str) -> Iterator[str]:
    """A file system in memory of 20 MiB."""
    with mounted(Path(parent), "20m"):
        yield parent


def await_that(is_done: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not is_done():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def free_port() -> int:
    """A free UDP port on the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def bound_hosts(pid: int) -> set[str]:
    """The addresses to which a process's UDP sockets are bound: IPv4 as text, IPv6 as the system writes them."""
    links = [Path(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    inodes = set()
    for link in links:
        with suppress(FileNotFoundError):  # closed since it was listed
            inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    hosts = {row[1].split(":")[0] for row in rows if row[9] in inodes}
    found = {socket.inet_ntoa(bytes.fromhex(host)[::-1]) for host in hosts}
    more = [line.split() for line in Path("/proc/net/udp6").read_text().splitlines()[1:]]
    return found | {row[1].split(":")[0] for row in more if row[9] in inodes}


def logs(folder: str) -> dict[str, os.stat_result]:
    """Log buffers in a driver's folder."""
    found = {}
    for kind in ("publications", "images"):
        for name in os.listdir(os.path.join(folder, kind)):
            with suppress(FileNotFoundError):  # deleted since it was listed
                found[f"{kind}/{name}"] = os.stat(os.path.join(folder, kind, name))
    return found


def fill(path: str) -> None:
    """Create a file that takes up the remaining space."""
    with suppress(OSError), open(path, "wb", buffering=0) as opened:
        while opened.write(bytes(1 << 16)):
            pass
    assert os.statvfs(os.path.dirname(path)).f_bavail == 0


def value(aeron: Aeron, counter: SystemCounter) -> int:
    found = aeron.counters.value(counter)
    assert found is not None
    return found


def sent_and_read(aeron: Aeron, channel: str, count: int = 100) -> list[bytes]:
    """Send and read a separate stream through the driver."""
    found: list[bytes] = []
    with aeron.add_subscription(channel, 77) as subscription, aeron.add_publication(channel, 77) as publication:
        for number in range(count):
            publication.send(b"%d" % number, timeout_s=SECONDS)
        await_that(lambda: subscription.poll(lambda payload, header: found.append(payload), 50) and len(found) == count)
    return found


MESSAGES = [b"%d" % number for number in range(100)]


@pytest.mark.skipif(sys.platform != "linux", reason="sockets of a process are looked up as Linux shows them")
def test_nothing_is_heard_from_other_machines_unless_a_channel_says_so(parent: str) -> None:
    with MediaDriver.launch(dir=f"{parent}/driver", **SMALL) as driver, Aeron.connect(driver.dir) as aeron:
        assert bound_hosts(driver.pid) == set()
        channel = f"aeron:udp?endpoint=localhost:{free_port()}"
        aeron.add_subscription(channel, 1)
        aeron.add_publication(channel, 1)
        aeron.add_publication("aeron:ipc", 1)
        assert bound_hosts(driver.pid) == {"127.0.0.1"}


def test_a_stream_takes_three_terms_and_a_page_at_each_end_and_gives_them_back(parent: str) -> None:
    with MediaDriver.launch(dir=f"{parent}/driver", **SMALL) as driver, Aeron.connect(driver.dir) as aeron:
        before = value(aeron, SystemCounter.BYTES_CURRENTLY_MAPPED)
        # All that a driver of these settings has, but for the log buffers.
        files = [os.stat(os.path.join(driver.dir, name)).st_size for name in ("cnc.dat", "loss-report.dat")]
        assert sum(files) == before
        channel = f"aeron:udp?endpoint=localhost:{free_port()}"
        with aeron.add_subscription(channel, 1) as subscription, aeron.add_publication(channel, 1):
            await_that(lambda: subscription.images)
            found = logs(driver.dir)
            assert sorted(name.split("/")[0] for name in found) == ["images", "publications"]
            # Not more; and all of it is there, so that nobody who writes to it is killed for want of memory.
            assert [(each.st_size, each.st_blocks * 512) for each in found.values()] == [(LOG, LOG)] * 2
            assert value(aeron, SystemCounter.BYTES_CURRENTLY_MAPPED) - before == 2 * LOG
        await_that(lambda: not logs(driver.dir))
        await_that(lambda: value(aeron, SystemCounter.BYTES_CURRENTLY_MAPPED) == before)


def test_the_time_that_names_take_is_told(parent: str) -> None:
    settings = SMALL | {"name_resolver_threshold_ns": 1}
    with MediaDriver.launch(dir=f"{parent}/driver", **settings) as driver, Aeron.connect(driver.dir) as aeron:
        aeron.add_publication("aeron:ipc", 1)
        assert value(aeron, SystemCounter.NAME_RESOLVER_MAX_TIME) == 0
        aeron.add_publication(f"aeron:udp?endpoint=localhost:{free_port()}", 1)
        assert value(aeron, SystemCounter.NAME_RESOLVER_MAX_TIME) > 1
        assert value(aeron, SystemCounter.NAME_RESOLVER_TIME_THRESHOLD_EXCEEDED) > 0


def test_without_room_for_a_log_there_is_an_error_and_the_driver_goes_on(parent: str, full_memory: str) -> None:
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        MediaDriver.launch(dir=f"{full_memory}/driver", **SMALL) as driver,
        MediaDriver.launch(dir=f"{elsewhere}/driver", **SMALL) as source,
        Aeron.connect(driver.dir) as aeron,
        Aeron.connect(source.dir) as publisher,
    ):
        big = aeron.add_publication("aeron:ipc?term-length=512k", 1)
        filler = os.path.join(full_memory, "filler")
        fill(filler)
        for channel in ("aeron:ipc", f"aeron:udp?endpoint=localhost:{free_port()}"):
            with pytest.raises(RegistrationRefused, match=r"storage|space") as refused:
                aeron.add_publication(channel, 2)
            assert refused.value.error_code == ErrorCode.STORAGE_SPACE
        # What is there is all there: nobody is killed when it is written.
        reader = aeron.add_subscription("aeron:ipc", 1)
        await_that(lambda: reader.images)
        for _ in range(4 * 512):
            big.send(bytes(1000), timeout_s=SECONDS)
            reader.poll(lambda payload, header: None, 10)
        # A stream from outside gets no image, and is told about, until there is room.
        channel = f"aeron:udp?endpoint=localhost:{free_port()}"
        subscription = aeron.add_subscription(channel, 3)
        publication = publisher.add_publication(channel, 3)
        errors = value(aeron, SystemCounter.ERRORS)
        await_that(lambda: value(aeron, SystemCounter.ERRORS) > errors)
        assert subscription.images == ()
        os.unlink(filler)
        await_that(lambda: subscription.images)
        publication.send(b"there is room", timeout_s=SECONDS)
        found: list[bytes] = []
        await_that(lambda: subscription.poll(lambda payload, header: found.append(payload), 1))
        assert found == [b"there is room"]
        assert driver.is_running


CLIENT = """
import sys, time
from everlog.aeron import Aeron
aeron = Aeron.connect(sys.argv[1])
publications = [aeron.add_publication(channel, 5) for channel in sys.argv[2:]]
subscriptions = [aeron.add_subscription(channel, 6) for channel in sys.argv[2:]]
counter = aeron.add_counter(1001, "of the killed one")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_a_killed_clients_streams_counters_and_sockets_are_gone_and_others_go_on(parent: str) -> None:
    settings = SMALL | {"client_liveness_timeout_ns": 1_000_000_000, "publication_connection_timeout_ns": 500_000_000}
    with MediaDriver.launch(dir=f"{parent}/driver", **settings) as driver, Aeron.connect(driver.dir) as aeron:
        channel = f"aeron:udp?endpoint=localhost:{free_port()}"
        assert sent_and_read(aeron, channel) == MESSAGES
        await_that(lambda: not logs(driver.dir) and not bound_hosts(driver.pid))
        labels = {counter.label for counter in aeron.counters}
        theirs = f"aeron:udp?endpoint=localhost:{free_port()}"
        command = [sys.executable, "-c", CLIENT, driver.dir, "aeron:ipc", theirs]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        mine = aeron.add_subscription("aeron:ipc", 5)
        await_that(lambda: mine.images)
        assert len(logs(driver.dir)) == 2
        assert "of the killed one" in {counter.label for counter in aeron.counters}
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        killed = time.monotonic()
        assert sent_and_read(aeron, channel) == MESSAGES
        await_that(lambda: not mine.images)
        # Liveness, and what was published unread.
        assert 0.5 < time.monotonic() - killed < 6
        mine.close()
        await_that(lambda: not logs(driver.dir) and not bound_hosts(driver.pid))
        await_that(lambda: {counter.label for counter in aeron.counters} == labels)
        assert value(aeron, SystemCounter.CLIENT_TIMEOUTS) == 1
        assert sent_and_read(aeron, channel) == MESSAGES
