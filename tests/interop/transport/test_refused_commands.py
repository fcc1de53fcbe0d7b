"""Commands that are refused, given to Java's driver and to ours: answers and error logs are the same, and as recorded.
``EVERLOG_RECORD=1`` records what Java's driver does anew."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from everlog.aeron.error_log import read_errors
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.memory.broadcast import BroadcastReceiver
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.refused_commands import CASES, CLIENT, GOLDEN, Kept, Run
from tests.interop.transport.java_transport import JavaDriver

TIMEOUT_S = 20
KEEPALIVE_S = 1.0
ERROR_LOG_LENGTH = 8 << 20


class LiveDoor:
    """Of a driver that runs in a folder."""

    def __init__(self, folder: Path | str) -> None:
        self._cnc = CncMemory.map(Path(folder))
        self._to_driver = ManyToOneRingBuffer(self._cnc.to_driver)
        self._receiver = BroadcastReceiver(self._cnc.to_clients)
        self._kept_alive_s = 0.0

    def next_id(self) -> int:
        """A correlation id."""
        return self._to_driver.next_correlation_id()

    def answer(self, command: commands.Command) -> commands.Event:
        """What it says to a command."""
        if time.monotonic() > self._kept_alive_s + KEEPALIVE_S:
            self._kept_alive_s = time.monotonic()
            assert self._to_driver.write(*commands.encode(commands.ClientKeepalive(CLIENT, 0)))
        assert self._to_driver.write(*commands.encode(command))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._receiver.receive()
            event = None if message is None else commands.decode_event(*message)
            if event is None:
                time.sleep(0.0002)
            elif getattr(event, "correlation_id", None) == command.correlation_id:
                return event
        raise AssertionError(f"no answer to {command}")

    def first_lines(self) -> dict[str, int]:
        """Of the errors in its log, and how often they were seen."""
        found: dict[str, int] = {}
        for entry in read_errors(self._cnc.error_log.view()):
            line = entry.text.partition("\n")[0].rstrip()
            found[line] = found.get(line, 0) + entry.observation_count
        return found

    def pass_time(self) -> None:
        """A millisecond."""
        time.sleep(0.001)


def test_the_real_driver_refuses_and_logs_as_recorded(start_java_driver: Callable[..., JavaDriver]) -> None:
    properties = {
        "aeron.error.buffer.length": str(ERROR_LOG_LENGTH),
        "aeron.publication.linger.timeout": "0",
        "aeron.driver.reresolution.check.interval": "3600s",
    }
    found = Run(LiveDoor(start_java_driver(properties).dir)).all(CASES)
    if os.environ.get("EVERLOG_RECORD"):
        GOLDEN.write_bytes(gzip.compress(json.dumps(found, indent=0).encode(), 9, mtime=0))
    assert differences(found) == []


def test_our_driver_refuses_and_logs_the_same(start_our_driver: Callable[..., MediaDriver]) -> None:
    driver = start_our_driver(
        error_buffer_length=ERROR_LOG_LENGTH,
        publication_linger_timeout_ns=0,
        re_resolution_check_interval_ns=3600 * 10**9,
    )
    assert differences(Run(LiveDoor(driver.dir)).all(CASES)) == []


def differences(found: Kept) -> list[str]:
    """From what is recorded, a line for each case."""
    golden = recorded()
    cases = [*golden, *(case for case in found if case not in golden)]
    return [
        f"{case}: found {found.get(case)}, recorded {golden.get(case)}"
        for case in cases
        if found.get(case) != golden.get(case)
    ]


def recorded() -> Kept:
    """The golden data."""
    with gzip.open(GOLDEN, "rt") as file:
        found: Kept = json.load(file)
    return found
