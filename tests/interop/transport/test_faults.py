"""Two drivers that want one folder, drivers and clients that are killed: the real ones and ours."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.aeron.transport.driver.folder import DriverIsActive
from everlog.aeron.transport.driver.media_driver import MediaDriver
from tests.interop.archive.java_archive import Messages
from tests.interop.line_process import PeerError
from tests.interop.transport.java_transport import JavaClient, JavaDriver, expected
from tests.interop.transport.our_transport import OurClient, await_that

pytestmark = pytest.mark.long

IPC = "aeron:ipc?term-length=64k"
STREAM = 1001
KEEPING = {"aeron.dir.delete.on.start": "false", "aeron.dir.delete.on.shutdown": "false"}


def serves(client: JavaClient) -> None:
    """Asserts that a client's driver carries a stream."""
    client.subscribe("s", IPC, STREAM)
    client.publish("s", IPC, STREAM)
    client.await_connected("s")
    messages = Messages(seed=1, sizes=(1, 100, 3000), count=9)
    client.offer("s", messages)
    assert client.poll("s", 9) == expected(messages)
    client.close_one("s")


def test_the_real_driver_does_not_start_in_a_folder_of_ours_nor_ours_in_its(
    start_java_driver: Callable[..., JavaDriver],
    start_our_driver: Callable[..., MediaDriver],
    start_java_client: Callable[..., JavaClient],
) -> None:
    ours = start_our_driver()
    with pytest.raises(PeerError, match="ActiveDriverException"):
        start_java_driver(KEEPING, Path(ours.dir))
    serves(start_java_client(ours.dir))
    java = start_java_driver(KEEPING)
    with pytest.raises(DriverIsActive, match=f"active media driver.*{java.pid}"):
        start_our_driver(java.dir)
    serves(start_java_client(java.dir))


def test_the_one_starts_where_the_other_has_ended_or_died(
    start_java_driver: Callable[..., JavaDriver],
    start_our_driver: Callable[..., MediaDriver],
    start_java_client: Callable[..., JavaClient],
    driver_folder: Path,
) -> None:
    start_our_driver(driver_folder).close()
    start_java_driver(KEEPING, driver_folder).close()
    ours = start_our_driver(driver_folder, driver_timeout_ms=1000)
    serves(start_java_client(driver_folder))
    os.kill(ours.pid, signal.SIGKILL)
    ours.wait(10)
    # What a killed driver left is a live driver's until its last sign of life is old.
    time.sleep(1.1)
    java = start_java_driver(KEEPING | {"aeron.driver.timeout": "1000"}, driver_folder)
    serves(start_java_client(driver_folder))
    java.kill()
    time.sleep(1.1)
    start_our_driver(driver_folder, driver_timeout_ms=1000)
    serves(start_java_client(driver_folder))


def test_a_killed_driver_of_ours_is_an_error_in_time_for_the_real_client(
    start_our_driver: Callable[..., MediaDriver], start_java_client: Callable[..., JavaClient]
) -> None:
    driver = start_our_driver()
    client = start_java_client(driver.dir, driver_timeout_ms=1500)
    client.subscribe("s", IPC, STREAM)
    client.publish("s", IPC, STREAM)
    begun = time.monotonic()
    os.kill(driver.pid, signal.SIGKILL)
    errors: list[str] = []
    while not errors and time.monotonic() - begun < 10:
        errors += client.errors()
    assert time.monotonic() - begun < 5
    assert re.search(r"DriverTimeoutException.*keepalive", errors[0])


@pytest.mark.parametrize("kind", ["java", "ours"])
def test_a_killed_client_of_the_other_make_costs_nobody_else_anything(
    request: pytest.FixtureRequest, kind: str, start_java_client: Callable[..., JavaClient]
) -> None:
    if kind == "java":
        soon = {"aeron.client.liveness.timeout": "1s", "aeron.timer.interval": "50ms"}
        driver = request.getfixturevalue("start_java_driver")(soon)
    else:
        settings = {"client_liveness_timeout_ns": 1_000_000_000, "timer_interval_ns": 50_000_000}
        driver = request.getfixturevalue("start_our_driver")(**settings)
    ours = OurClient(driver.dir)
    killed = start_java_client(driver.dir)
    ours.subscribe("s", IPC, STREAM)
    killed.publish("s", IPC, STREAM)
    killed.add_counter("c", 1001, "killed", 3)
    killed.subscribe("t", IPC, STREAM + 1)
    ours.publish("t", IPC, STREAM + 1, exclusive=True)
    ours.await_images("s", 1)
    ours.await_connected("t")
    messages = Messages(seed=1, sizes=(1, 100, 3000), count=9)
    killed.offer("s", messages)
    killed.kill()
    # What it published is still read; what waited for it goes on without it.
    assert ours.poll("s", 9) == expected(messages)
    ours.await_images("s", 0)
    ours.await_connected("t", connected=False)
    await_that(lambda: "killed" not in [counter.label for counter in ours.aeron.counters], "its counter's end")
    serves(start_java_client(driver.dir))
    timeouts = [
        counter.value for counter in ours.aeron.counters if counter.label.startswith("Client liveness timeouts")
    ]
    assert timeouts == [1]
    ours.close()
