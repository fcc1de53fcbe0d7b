"""Find a running driver by its folder. Source: Aeron's Aeron.Context, connectToDriver."""

from __future__ import annotations

import time
from pathlib import Path

from everlog.aeron.mark_file import now_ms
from everlog.aeron.transport.client.conducting.conductor import DriverMemory
from everlog.aeron.transport.client.errors import DriverTimeout
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.errors import CorruptData, StoreUnavailable, UsageError

SLEEP_SECONDS = 0.016
SHUT_DOWN = -1


def connect(folder: Path, options: ClientOptions) -> DriverMemory:
    """The memory shared with the driver of a folder, once it runs. Raises :class:`DriverTimeout` when none does within
    the options' ``driver_timeout_ms``, :class:`UnsupportedVersion` at once for one whose files are of another version,
    :class:`UsageError` for a liveness timeout of the driver's that is too short for the client's keep-alives."""
    deadline = time.monotonic() + options.driver_timeout_ms / 1000
    while True:
        found = _try(folder, options)
        if isinstance(found, DriverMemory):
            return found
        if time.monotonic() >= deadline:
            raise DriverTimeout(
                f"media driver {folder}",
                found=found,
                expected="a running driver",
                hint="start one with: everlog run driver, or set AERON_DIR to the folder of one that runs",
            )
        time.sleep(SLEEP_SECONDS)


def map_log(name: str) -> LogMemory:
    """The log buffer of a file that a driver names. Raises :class:`StoreUnavailable`, :class:`CorruptData`."""
    return LogMemory.map(Path(name))


def _try(folder: Path, options: ClientOptions) -> DriverMemory | str:
    """The memory, or what is there instead."""
    try:
        cnc = CncMemory.map(folder)
    except StoreUnavailable as error:
        return error.found or str(error)
    except CorruptData as error:
        # A driver that starts makes the file longer before it fills it in.
        return str(error)
    last_ms = ManyToOneRingBuffer(cnc.to_driver).consumer_heartbeat
    if last_ms == 0:
        return "a driver that has not begun to work"
    if last_ms == SHUT_DOWN:
        return "one that was shut down"
    age_ms = now_ms() - last_ms
    if age_ms > options.driver_timeout_ms:
        return f"one whose last sign of life is {age_ms} ms old"
    timeout_ns = cnc.header.client_liveness_timeout_ns
    if timeout_ns <= options.keep_alive_interval_ns:
        expected = f"less than the driver's client liveness timeout, {timeout_ns} ns"
        raise UsageError("keep_alive_interval_ns", found=str(options.keep_alive_interval_ns), expected=expected)
    return DriverMemory(
        cnc.to_driver, cnc.to_clients, cnc.counters_metadata, cnc.counters_values, timeout_ns, str(folder)
    )
