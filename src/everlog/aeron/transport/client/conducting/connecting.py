"""Connects to the driver that runs in a folder. Source: Aeron's Aeron.Context, connectToDriver."""

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
    """Map the memory shared with the driver in ``folder``, waiting until it runs. Raises :class:`DriverTimeout` if no
    driver runs there within the options' ``driver_timeout_ms``. Raises at once :class:`UnsupportedVersion` if the
    driver's files have an unknown version, :class:`UsageError` if the driver's client liveness timeout is too short
    for the client's keep-alive interval."""
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
                hint="start one: everlog run driver; or set AERON_DIR to a running driver's folder",
                message=f"no media driver runs in {folder}: {found}",
            )
        time.sleep(SLEEP_SECONDS)


def map_log(name: str) -> LogMemory:
    """Map the log buffer in the file ``name``. Raises :class:`StoreUnavailable`, :class:`CorruptData`."""
    return LogMemory.map(Path(name))


def _try(folder: Path, options: ClientOptions) -> DriverMemory | str:
    """The memory, or why no driver can be used."""
    try:
        cnc = CncMemory.map(folder)
    except StoreUnavailable as error:
        return error.found or str(error)
    except CorruptData as error:
        # A starting driver extends the file before it fills it in.
        return str(error)
    last_ms = ManyToOneRingBuffer(cnc.to_driver).consumer_heartbeat
    if last_ms == 0:
        return "the driver is still starting"
    if last_ms == SHUT_DOWN:
        return "the driver was shut down"
    age_ms = now_ms() - last_ms
    if age_ms > options.driver_timeout_ms:
        return f"the driver's last heartbeat is {age_ms} ms old"
    timeout_ns = cnc.header.client_liveness_timeout_ns
    if timeout_ns <= options.keep_alive_interval_ns:
        expected = f"less than the driver's client liveness timeout, {timeout_ns} ns"
        raise UsageError("keep_alive_interval_ns", found=str(options.keep_alive_interval_ns), expected=expected)
    return DriverMemory(
        cnc.to_driver, cnc.to_clients, cnc.counters_metadata, cnc.counters_values, timeout_ns, str(folder)
    )
