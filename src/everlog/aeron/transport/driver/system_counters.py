"""The driver's system counters, which come first in its counters file. Source: SystemCounterDescriptor,
MediaDriver.Context."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.counters import SYSTEM
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters

AERON_VERSION = 1, 51, 0
"""The version of Aeron whose behaviour this driver implements."""
CONTROL_PROTOCOL_VERSION = 1, 0, 0
_KEY = Struct("<i")
_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))


class SystemCounter(IntEnum):
    """Ids of the system counters, in order of allocation."""

    BYTES_SENT = 0
    BYTES_RECEIVED = 1
    RECEIVER_PROXY_FAILS = 2
    SENDER_PROXY_FAILS = 3
    CONDUCTOR_PROXY_FAILS = 4
    NAK_MESSAGES_SENT = 5
    NAK_MESSAGES_RECEIVED = 6
    STATUS_MESSAGES_SENT = 7
    STATUS_MESSAGES_RECEIVED = 8
    HEARTBEATS_SENT = 9
    HEARTBEATS_RECEIVED = 10
    RETRANSMITS_SENT = 11
    FLOW_CONTROL_UNDER_RUNS = 12
    FLOW_CONTROL_OVER_RUNS = 13
    INVALID_PACKETS = 14
    ERRORS = 15
    SHORT_SENDS = 16
    FREE_FAILS = 17
    SENDER_FLOW_CONTROL_LIMITS = 18
    UNBLOCKED_PUBLICATIONS = 19
    UNBLOCKED_COMMANDS = 20
    POSSIBLE_TTL_ASYMMETRY = 21
    CONTROLLABLE_IDLE_STRATEGY = 22
    LOSS_GAP_FILLS = 23
    CLIENT_TIMEOUTS = 24
    RESOLUTION_CHANGES = 25
    CONDUCTOR_MAX_CYCLE_TIME = 26
    CONDUCTOR_CYCLE_TIME_THRESHOLD_EXCEEDED = 27
    SENDER_MAX_CYCLE_TIME = 28
    SENDER_CYCLE_TIME_THRESHOLD_EXCEEDED = 29
    RECEIVER_MAX_CYCLE_TIME = 30
    RECEIVER_CYCLE_TIME_THRESHOLD_EXCEEDED = 31
    NAME_RESOLVER_MAX_TIME = 32
    NAME_RESOLVER_TIME_THRESHOLD_EXCEEDED = 33
    AERON_VERSION = 34
    BYTES_CURRENTLY_MAPPED = 35
    RETRANSMITTED_BYTES = 36
    RETRANSMIT_OVERFLOW = 37
    ERROR_FRAMES_RECEIVED = 38
    ERROR_FRAMES_SENT = 39
    PUBLICATIONS_REVOKED = 40
    PUBLICATION_IMAGES_REVOKED = 41
    IMAGES_REJECTED = 42
    CONTROL_PROTOCOL_VERSION = 43
    STATUS_MESSAGES_REJECTED = 44
    NATIVE_RESOURCE_AGENT_PROXY_FAILS = 45


def duration_text(duration_ns: int) -> str:
    """Format a duration as Agrona's ``SystemUtil.formatDuration`` does: 100,000,000 gives ``100ms``."""
    for unit, length in _UNITS:
        if duration_ns >= length and duration_ns % length == 0:
            return f"{duration_ns // length}{unit}"
    return f"{duration_ns}ns"


def version_number(version: tuple[int, int, int]) -> int:
    """Encode a semantic version as a counter's value."""
    major, minor, patch = version
    return major << 16 | minor << 8 | patch


def version_info() -> str:
    """The software's version as labels show it; monitoring tools search for ``version=``."""
    return f"version={'.'.join(map(str, AERON_VERSION))} commit=everlog"


LABELS = (
    "Bytes sent",
    "Bytes received",
    "Failed offers to ReceiverProxy",
    "Failed offers to SenderProxy",
    "Failed offers to DriverConductorProxy",
    "NAKs sent",
    "NAKs received",
    "Status Messages sent",
    "Status Messages received",
    "Heartbeats sent",
    "Heartbeats received",
    "Retransmits sent",
    "Flow control under runs",
    "Flow control over runs",
    "Invalid packets",
    "Errors: {version}",
    "Short sends",
    "Failed attempts to free log buffers",
    "Sender flow control limits, i.e. back-pressure events",
    "Unblocked Publications",
    "Unblocked Control Commands",
    "Possible TTL Asymmetry",
    "ControllableIdleStrategy status",
    "Loss gap fills",
    "Client liveness timeouts",
    "Resolution changes: driverName={name}",
    "Conductor max cycle time doing its work in ns: {mode}",
    "Conductor work cycle exceeded threshold count: {conductor} {mode}",
    "Sender max cycle time doing its work in ns: {mode}",
    "Sender work cycle exceeded threshold count: {sender} {mode}",
    "Receiver max cycle time doing its work in ns: {mode}",
    "Receiver work cycle exceeded threshold count: {receiver} {mode}",
    "NameResolver max time in ns",
    "NameResolver exceeded threshold count: {resolver}",
    "Aeron software: {version}",
    "Bytes currently mapped",
    "Retransmitted bytes",
    "Retransmit Pool Overflow count",
    "Error Frames received",
    "Error Frames sent",
    "Publications Revoked",
    "Publication Images Revoked",
    "Images rejected",
    "Control protocol version",
    "Status Messages rejected",
    "Failed offers to NativeResourceAgentProxy",
)
"""Label templates, in order of the ids."""


def labels(configuration: Configuration) -> dict[SystemCounter, str]:
    """The labels of all system counters under a configuration."""

    def threshold(duration_ns: int) -> str:
        return f"threshold={duration_text(duration_ns)}"

    values = {
        "version": version_info(),
        "name": configuration.resolver_name or "null",
        "mode": configuration.threading_mode.name,
        "conductor": threshold(configuration.conductor_cycle_threshold_ns),
        "sender": threshold(configuration.sender_cycle_threshold_ns),
        "receiver": threshold(configuration.receiver_cycle_threshold_ns),
        "resolver": threshold(configuration.name_resolver_threshold_ns),
    }
    return {counter: label.format_map(values) for counter, label in zip(SystemCounter, LABELS, strict=True)}


class SystemCounters:
    """The allocated system counters, by id: ``system_counters[SystemCounter.ERRORS]``. ``counters`` must be empty, so
    that each counter gets its own id."""

    def __init__(self, counters: Counters, configuration: Configuration, now_ms: int) -> None:
        self._counters = {
            counter: counters.allocate(
                SYSTEM, _KEY.pack(counter), label, registration_id=int(counter), owner_id=NULL_VALUE, now_ms=now_ms
            )
            for counter, label in labels(configuration).items()
        }
        self[SystemCounter.AERON_VERSION].set_release(version_number(AERON_VERSION))
        self[SystemCounter.CONTROL_PROTOCOL_VERSION].set_release(version_number(CONTROL_PROTOCOL_VERSION))

    def __getitem__(self, counter: SystemCounter) -> AtomicCounter:
        return self._counters[counter]


class CycleTime:
    """Tracks the time between the starts of an agent's cycles: the longest, and how many exceeded a threshold. The time
    before the first cycle does not count. Source: DutyCycleStallTracker."""

    __slots__ = ("_exceeded", "_last_ns", "_max", "_max_ns", "_threshold_ns")

    def __init__(self, longest: AtomicCounter, exceeded: AtomicCounter, threshold_ns: int) -> None:
        self._max = longest
        self._exceeded = exceeded
        self._threshold_ns = threshold_ns
        self._last_ns: int | None = None
        self._max_ns = 0

    def restart(self) -> None:
        """Exclude the time until the next cycle, because the agent was idle."""
        self._last_ns = None

    def measure(self, now_ns: int) -> None:
        """Record that a cycle begins."""
        duration_ns = 0 if self._last_ns is None else now_ns - self._last_ns
        self._last_ns = now_ns
        if duration_ns > self._max_ns:
            self._max_ns = duration_ns
            self._max.propose_max_release(duration_ns)
        if duration_ns > self._threshold_ns:
            self._exceeded.increment_release()
