"""Names of drivers: the real driver's resolver and ours tell each other who they are."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.driver.assembly import Environment, driver_context
from everlog.aeron.transport.driver.log_factory import LogFactory
from everlog.aeron.transport.driver.media_context import media_context
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.name_resolver import DriverNameResolver
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.media.network import SystemNetwork
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.runtime.tasks import InlineTasks
from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import JavaClient, JavaDriver, expected
from tests.interop.transport.our_transport import OurClient, free_port, in_thread

SECONDS = 20


def counters_of(folder: Path) -> dict[str, int]:
    cnc = CncMemory.map(folder, writable=False)
    return {each.label: each.value for each in CountersReader(cnc.counters_metadata, cnc.counters_values)}


def test_the_real_resolver_and_ours_know_each_other(start_java_driver: Callable[..., JavaDriver]) -> None:
    theirs, ours = free_port(), free_port()
    driver = start_java_driver(
        {
            "aeron.driver.resolver.name": "java-driver",
            "aeron.driver.resolver.interface": f"127.0.0.1:{theirs}",
            "aeron.driver.resolver.bootstrap.neighbor": f"127.0.0.1:{ours}",
        }
    )
    configuration = dataclasses.replace(
        Configuration(), resolver_name="our-driver", resolver_interface=f"127.0.0.1:{ours}"
    )
    surroundings = Environment(log_factory=cast(LogFactory, object()), tasks=InlineTasks())
    now_ms = time.time_ns() // 1_000_000
    context = driver_context(configuration, CncMemory.allocate(CncSettings(), now_ms), surroundings, 0, now_ms)
    resolver = DriverNameResolver(context, media_context(context, SystemNetwork(), time.time_ns))
    end = time.monotonic() + SECONDS
    label = f"Resolver neighbors: bound 127.0.0.1:{theirs}"
    found: dict[str, int] = {}
    while time.monotonic() < end and (not resolver.neighbors or not any(found.get(key) for key in found)):
        resolver.do_work(time.time_ns() // 1_000_000)
        found = {key: value for key, value in counters_of(driver.dir).items() if key.startswith(label)}
        time.sleep(0.02)
    resolver.close()
    assert resolver.resolve("java-driver", "endpoint", False) == "127.0.0.1"
    assert [address.port for address in resolver.neighbors] == [theirs]
    assert list(found.values()) == [1]
    assert counters_of(driver.dir)["Resolver cache entries: name=java-driver"] == 1
    assert context.system_counters[SystemCounter.INVALID_PACKETS].get() == 0


def await_neighbor(folder: Path | str) -> None:
    """Until a driver knows another one."""
    end = time.monotonic() + SECONDS
    while not any(
        label.startswith("Resolver neighbors") and value for label, value in counters_of(Path(folder)).items()
    ):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("publishes", ["java", "ours"])
def test_a_channel_names_the_driver_that_it_goes_to(
    publishes: str,
    start_java_driver: Callable[..., JavaDriver],
    start_our_driver: Callable[..., MediaDriver],
    start_java_client: Callable[..., JavaClient],
) -> None:
    theirs, ours, port = free_port(), free_port(), free_port()
    java = start_java_driver(
        {"aeron.driver.resolver.name": "java-driver", "aeron.driver.resolver.interface": f"127.0.0.1:{theirs}"}
    )
    our = start_our_driver(
        resolver_name="our-driver",
        resolver_interface=f"127.0.0.1:{ours}",
        resolver_bootstrap_neighbor=f"127.0.0.1:{theirs}",
    )
    for folder in (java.dir, our.dir):
        await_neighbor(folder)
    clients = start_java_client(java.dir), OurClient(our.dir)
    source, sink = clients if publishes == "java" else clients[::-1]
    name = "our-driver" if publishes == "java" else "java-driver"
    sink.subscribe("s", f"aeron:udp?endpoint=127.0.0.1:{port}", 1)
    source.publish("s", f"aeron:udp?endpoint={name}:{port}|term-length=64k", 1)
    source.await_connected("s")
    messages = Messages(seed=1, sizes=(1, 1000, 3000), count=50)
    offered = in_thread(source.offer, "s", messages)
    assert sink.poll("s", 50) == expected(messages)
    offered()
    clients[1].close()
