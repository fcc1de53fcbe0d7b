"""``everlog check`` of a media driver: heartbeat, errors, losses, free space."""

from __future__ import annotations

from everlog.aeron.family_options import ERROR_WINDOW
from everlog.aeron.owner_checks import (
    MS_PER_S,
    add_error_count,
    add_errors,
    add_half_written,
    add_heartbeat,
    add_stopped,
    problem_text,
)
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.cnc_file import CNC_NAME
from everlog.aeron.transport.format.counters import (
    HEARTBEAT,
    PUBLISHER_POSITION,
    RECEIVE_CHANNEL_STATUS,
    RECEIVER_POSITION,
    SEND_CHANNEL_STATUS,
)
from everlog.aeron.transport.monitoring.observation import DriverObservation, observe_driver
from everlog.core.counting import counted
from everlog.core.files.storage import Storage
from everlog.core.monitoring.checking import CheckResult, Limits, measure_free_space
from everlog.core.monitoring.levels import Status
from everlog.errors import CorruptData, StoreUnavailable
from everlog.time_units import NS_PER_MS

OWNER = "driver"
FAILED = -1
"""Status of a channel whose endpoint could not be opened."""
PERFORMANCE = {
    SystemCounter.BYTES_SENT: "bytes_sent",
    SystemCounter.BYTES_RECEIVED: "bytes_received",
    SystemCounter.NAK_MESSAGES_SENT: "naks_sent",
    SystemCounter.NAK_MESSAGES_RECEIVED: "naks_received",
    SystemCounter.RETRANSMITS_SENT: "retransmits_sent",
    SystemCounter.CLIENT_TIMEOUTS: "client_timeouts",
}
"""Label in performance data of the system counters that only rise."""


def check(storage: Storage, limits: Limits, now_ns: int) -> CheckResult:
    """Check a driver's folder. Raises :class:`UnsupportedVersion`, :class:`LimitExceeded`, and
    :class:`StoreUnavailable` if the folder, or a file that exists, can't be read."""
    result = CheckResult()
    if CNC_NAME not in storage.names():
        add_stopped(result, f"no {CNC_NAME}: no driver runs here", limits)
        measure_free_space(result, storage, limits)
        return result
    try:
        seen = observe_driver(storage, now_ns // NS_PER_MS)
    except CorruptData as error:
        add_half_written(result, storage, CNC_NAME, OWNER, problem_text(error), limits, now_ns)
    except StoreUnavailable as error:
        if error.offset is None:  # not version 0, which a driver sets last
            raise
        add_half_written(result, storage, CNC_NAME, OWNER, problem_text(error), limits, now_ns)
    else:
        _judge(result, seen, limits, now_ns)
    measure_free_space(result, storage, limits)
    return result


def _judge(result: CheckResult, seen: DriverObservation, limits: Limits, now_ns: int) -> None:
    if seen.problem is not None:
        result.find(Status.CRITICAL, f"{CNC_NAME} is cut: {seen.problem}")
    if seen.heartbeat_ms is not None:
        add_heartbeat(result, OWNER, seen.heartbeat_ms, seen.header.pid, limits, now_ns)
    add_errors(result, seen.errors, limits, now_ns)
    _judge_counters(result, seen, limits)
    _judge_losses(result, seen, limits, now_ns)
    kinds = [counter.type_id for counter in seen.counters]
    clients, publications, images = map(kinds.count, (HEARTBEAT, PUBLISHER_POSITION, RECEIVER_POSITION))
    result.facts += [counted(clients, "client"), counted(publications, "publication"), counted(images, "image")]
    result.measure("clients", clients, "")


def _judge_counters(result: CheckResult, seen: DriverObservation, limits: Limits) -> None:
    values = seen.system_counters()
    count = values.get(SystemCounter.ERRORS)
    if count is not None:
        add_error_count(result, OWNER, count, limits)
    for system_counter, label in PERFORMANCE.items():
        if system_counter in values:
            result.measure(label, values[system_counter], "", unit="c")
    for counter in seen.counters:
        if counter.type_id in (SEND_CHANNEL_STATUS, RECEIVE_CHANNEL_STATUS) and counter.value == FAILED:
            result.find(Status.WARNING, f"channel failed: {counter.label}")


def _judge_losses(result: CheckResult, seen: DriverObservation, limits: Limits, now_ns: int) -> None:
    """Judge the images that lost something within the window, by all that they ever lost: the report has no more."""
    if seen.loss_problem is not None:
        result.details.append(f"loss report: {seen.loss_problem}")
    if seen.losses is None:
        return
    window: float = limits[ERROR_WINDOW.field]
    since_ms = now_ns // NS_PER_MS - window * MS_PER_S
    recent = [loss for loss in seen.losses if loss.last_observation >= since_ms]
    lost = sum(loss.total_bytes_lost for loss in recent)
    text = f"{counted(lost, 'byte')} lost by {counted(len(recent), 'image')} with losses in the last {window:g} s"
    if result.measure("lost_bytes", lost, text, unit="B", levels=limits["lost_bytes"]) is Status.OK and recent:
        result.details.append(text)
