"""Prometheus metrics of media drivers. Needs the extra ``metrics``."""

from __future__ import annotations

import time
from collections.abc import Iterator

from everlog.aeron.error_log import DistinctError
from everlog.aeron.owner_checks import CLOSED, MS_PER_S
from everlog.aeron.transport.driver.system_counters import LABELS, SystemCounter
from everlog.aeron.transport.folder.stats import STREAM_STAT_TYPES, backlogs
from everlog.aeron.transport.format.counters import (
    HEARTBEAT,
    RECEIVE_CHANNEL_STATUS,
    RECEIVER_NAKS_SENT,
    SEND_CHANNEL_STATUS,
    SENDER_BPE,
    SENDER_NAKS_RECEIVED,
    Counter,
)
from everlog.aeron.transport.monitoring.observation import DriverObservation, observe_driver
from everlog.core.files.storage import Storage
from everlog.core.monitoring.collector import Metric, Sample, StoreCollector, label_text
from everlog.core.monitoring.free_space import free_space
from everlog.time_units import NS_PER_MS, NS_PER_S

STREAM = ("session_id", "stream_id", "channel", "registration_id")
EVENT_TYPES = frozenset({SENDER_BPE, SENDER_NAKS_RECEIVED, RECEIVER_NAKS_SENT})
POSITION_TYPES = STREAM_STAT_TYPES - EVENT_TYPES
CHANNEL_TYPES = frozenset({SEND_CHANNEL_STATUS, RECEIVE_CHANNEL_STATUS})

SYSTEM_METRICS: dict[SystemCounter, str] = {
    SystemCounter.BYTES_SENT: "sent_bytes_total",
    SystemCounter.BYTES_RECEIVED: "received_bytes_total",
    SystemCounter.RECEIVER_PROXY_FAILS: "receiver_proxy_fails_total",
    SystemCounter.SENDER_PROXY_FAILS: "sender_proxy_fails_total",
    SystemCounter.CONDUCTOR_PROXY_FAILS: "conductor_proxy_fails_total",
    SystemCounter.NAK_MESSAGES_SENT: "naks_sent_total",
    SystemCounter.NAK_MESSAGES_RECEIVED: "naks_received_total",
    SystemCounter.STATUS_MESSAGES_SENT: "status_messages_sent_total",
    SystemCounter.STATUS_MESSAGES_RECEIVED: "status_messages_received_total",
    SystemCounter.HEARTBEATS_SENT: "heartbeats_sent_total",
    SystemCounter.HEARTBEATS_RECEIVED: "heartbeats_received_total",
    SystemCounter.RETRANSMITS_SENT: "retransmits_sent_total",
    SystemCounter.FLOW_CONTROL_UNDER_RUNS: "flow_control_under_runs_total",
    SystemCounter.FLOW_CONTROL_OVER_RUNS: "flow_control_over_runs_total",
    SystemCounter.INVALID_PACKETS: "invalid_packets_total",
    SystemCounter.ERRORS: "errors_total",
    SystemCounter.SHORT_SENDS: "short_sends_total",
    SystemCounter.FREE_FAILS: "free_fails_total",
    SystemCounter.SENDER_FLOW_CONTROL_LIMITS: "sender_flow_control_limits_total",
    SystemCounter.UNBLOCKED_PUBLICATIONS: "unblocked_publications_total",
    SystemCounter.UNBLOCKED_COMMANDS: "unblocked_commands_total",
    SystemCounter.POSSIBLE_TTL_ASYMMETRY: "possible_ttl_asymmetries_total",
    SystemCounter.CONTROLLABLE_IDLE_STRATEGY: "controllable_idle_strategy",
    SystemCounter.LOSS_GAP_FILLS: "loss_gap_fills_total",
    SystemCounter.CLIENT_TIMEOUTS: "client_timeouts_total",
    SystemCounter.RESOLUTION_CHANGES: "resolution_changes_total",
    SystemCounter.CONDUCTOR_MAX_CYCLE_TIME: "conductor_max_cycle_seconds",
    SystemCounter.CONDUCTOR_CYCLE_TIME_THRESHOLD_EXCEEDED: "conductor_slow_cycles_total",
    SystemCounter.SENDER_MAX_CYCLE_TIME: "sender_max_cycle_seconds",
    SystemCounter.SENDER_CYCLE_TIME_THRESHOLD_EXCEEDED: "sender_slow_cycles_total",
    SystemCounter.RECEIVER_MAX_CYCLE_TIME: "receiver_max_cycle_seconds",
    SystemCounter.RECEIVER_CYCLE_TIME_THRESHOLD_EXCEEDED: "receiver_slow_cycles_total",
    SystemCounter.NAME_RESOLVER_MAX_TIME: "name_resolver_max_seconds",
    SystemCounter.NAME_RESOLVER_TIME_THRESHOLD_EXCEEDED: "name_resolver_slow_lookups_total",
    SystemCounter.BYTES_CURRENTLY_MAPPED: "mapped_bytes",
    SystemCounter.RETRANSMITTED_BYTES: "retransmitted_bytes_total",
    SystemCounter.RETRANSMIT_OVERFLOW: "retransmit_overflows_total",
    SystemCounter.ERROR_FRAMES_RECEIVED: "error_frames_received_total",
    SystemCounter.ERROR_FRAMES_SENT: "error_frames_sent_total",
    SystemCounter.PUBLICATIONS_REVOKED: "publications_revoked_total",
    SystemCounter.PUBLICATION_IMAGES_REVOKED: "publication_images_revoked_total",
    SystemCounter.IMAGES_REJECTED: "images_rejected_total",
    SystemCounter.STATUS_MESSAGES_REJECTED: "status_messages_rejected_total",
    SystemCounter.NATIVE_RESOURCE_AGENT_PROXY_FAILS: "native_resource_agent_proxy_fails_total",
}
"""The metric of each system counter; the two versions are none. Times are nanoseconds in ``cnc.dat``."""

METRICS: dict[str, Metric] = {
    "up": Metric((), "1 if cnc.dat could be read, else 0 with no other metrics."),
    "live": Metric((), "1 if the driver's heartbeat is younger than its timeout."),
    "info": Metric(("version", "pid"), "Version of cnc.dat and the driver's process id; always 1."),
    "heartbeat_timestamp_seconds": Metric((), "Last heartbeat, in seconds since 1970; absent after a clean close."),
    "heartbeat_age_seconds": Metric((), "Age of the last heartbeat; absent after a clean close."),
    "start_timestamp_seconds": Metric((), "Start of the driver, in seconds since 1970."),
    "free_bytes": Metric((), "Free bytes on the file system of the driver's folder."),
    "clients": Metric((), "Clients with a heartbeat counter."),
    "counters": Metric((), "Allocated counters."),
    "distinct_errors": Metric((), "Errors in the error log."),
    "error_observations_total": Metric((), "Observations of all errors in the error log."),
    "lost_bytes_total": Metric(("session_id", "stream_id", "channel", "source"), "Bytes lost by an image."),
    "loss_observations_total": Metric(("session_id", "stream_id", "channel", "source"), "Losses observed by an image."),
    "stream_position_bytes": Metric(("type", *STREAM), "Position or limit of a publication, image or subscription."),
    "stream_events_total": Metric(("type", *STREAM), "NAKs and back-pressure events of a publication or image."),
    "subscriber_backlog_bytes": Metric(STREAM, "Received bytes that a subscription has not read."),
    "channel_status": Metric(("type", "channel"), "1: a channel's endpoint is active, 0: opening, -1: failed."),
    **{
        name: Metric((), f"System counter {counter.value}: {LABELS[counter].partition(':')[0]}.")
        for counter, name in SYSTEM_METRICS.items()
    },
}
"""By name after the prefix. ``docs/monitoring.md`` lists them."""


class DriverCollector(StoreCollector):
    """Collects the metrics of media drivers' folders."""

    prefix = "everlog_driver_"
    metrics = METRICS

    def samples(self, path: str, storage: Storage) -> Iterator[Sample]:
        """Read ``cnc.dat`` and the loss report."""
        now_ms = time.time_ns() // NS_PER_MS
        seen = observe_driver(storage, now_ms)
        space = free_space(storage)
        yield Sample("live", int(seen.is_live))
        yield Sample("info", 1, (seen.version, str(seen.header.pid)))
        yield from heartbeat_samples(seen.heartbeat_ms, seen.header.start_timestamp_ms, now_ms)
        yield Sample("free_bytes", None if space is None else space.free_bytes)
        yield Sample("clients", sum(counter.type_id == HEARTBEAT for counter in seen.counters))
        yield Sample("counters", len(seen.counters))
        yield from error_samples(seen.errors)
        yield from _losses(seen)
        yield from _streams(seen)
        values = seen.system_counters()
        for counter, name in SYSTEM_METRICS.items():
            value = values.get(counter)
            is_time = value is not None and name.endswith("_seconds")
            yield Sample(name, value / NS_PER_S if is_time and value is not None else value)


def heartbeat_samples(heartbeat_ms: int | None, start_ms: int, now_ms: int) -> Iterator[Sample]:
    """When a driver or an archive started, and its last heartbeat."""
    if heartbeat_ms is not None and heartbeat_ms != CLOSED:
        yield Sample("heartbeat_timestamp_seconds", heartbeat_ms / MS_PER_S)
        yield Sample("heartbeat_age_seconds", (now_ms - heartbeat_ms) / MS_PER_S)
    yield Sample("start_timestamp_seconds", start_ms / MS_PER_S)


def error_samples(errors: tuple[DistinctError, ...]) -> Iterator[Sample]:
    """The size of an error log."""
    yield Sample("distinct_errors", len(errors))
    yield Sample("error_observations_total", sum(error.observation_count for error in errors))


def _losses(seen: DriverObservation) -> Iterator[Sample]:
    """Losses by image. An image that comes back with the same ids has another entry: they are added up."""
    lost: dict[tuple[str, ...], tuple[int, int]] = {}
    for loss in seen.losses or ():
        labels: tuple[str, ...] = (str(loss.session_id), str(loss.stream_id), _label(loss.channel), _label(loss.source))
        byte_count, count = lost.get(labels, (0, 0))
        lost[labels] = byte_count + loss.total_bytes_lost, count + loss.observation_count
    for labels, (byte_count, count) in lost.items():
        yield Sample("lost_bytes_total", byte_count, labels)
        yield Sample("loss_observations_total", count, labels)


def _streams(seen: DriverObservation) -> Iterator[Sample]:
    for counter in seen.counters:
        key = counter.key_fields
        if not key or counter.type_name is None:
            continue
        if counter.type_id in POSITION_TYPES | EVENT_TYPES:
            name = "stream_events_total" if counter.type_id in EVENT_TYPES else "stream_position_bytes"
            yield Sample(name, counter.value, (counter.type_name, *_stream_labels(counter)))
        elif counter.type_id in CHANNEL_TYPES:
            yield Sample("channel_status", counter.value, (counter.type_name, _label(key["channel"])))
    for backlog in backlogs(seen.counters):
        if backlog.receiver is None:
            continue
        stream = backlog.stream
        for registration_id, byte_count in backlog.subscriber_backlogs():
            labels = (str(stream.session_id), str(stream.stream_id), _label(stream.channel), str(registration_id))
            yield Sample("subscriber_backlog_bytes", max(byte_count, 0), labels)


def _stream_labels(counter: Counter) -> tuple[str, ...]:
    key = counter.key_fields
    return str(key["session_id"]), str(key["stream_id"]), _label(key["channel"]), str(key["registration_id"])


def _label(text: str) -> str:
    return label_text(text.encode("utf-8", "surrogateescape"))
