"""Prometheus metrics of archives. Needs the extra ``metrics``."""

from __future__ import annotations

import time
from collections.abc import Iterator

from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.monitoring.observation import RECORDING_POSITION, observe_archive
from everlog.aeron.mark_file import ArchiveMark
from everlog.aeron.transport.format.counters import Counter
from everlog.aeron.transport.monitoring.metrics import error_samples, heartbeat_samples
from everlog.core.files.storage import Storage
from everlog.core.monitoring.collector import Metric, Sample, StoreCollector
from everlog.core.monitoring.free_space import free_space
from everlog.errors import CorruptData
from everlog.time_units import NS_PER_MS, NS_PER_S

COUNTER_METRICS: dict[str, tuple[str, str]] = {
    "archive-error-count": ("errors_total", "Errors since the archive started."),
    "archive-control-sessions": ("control_sessions", "Connected control sessions."),
    "archive-recording-session-count": ("recording_sessions", "Recordings that are being written."),
    "archive-replay-session-count": ("replay_sessions", "Replays that are being sent."),
    "archive-max-cycle-time": ("conductor_max_cycle_seconds", "Longest cycle of the conductor."),
    "archive-cycle-time-threshold-exceeded": ("conductor_slow_cycles_total", "Cycles longer than the threshold."),
    "archive-recorder-max-write-time": ("recorder_max_write_seconds", "Longest write of a block."),
    "archive-recorder-total-write-bytes": ("recorder_written_bytes_total", "Bytes written by the recorder."),
    "archive-recorder-total-write-time": ("recorder_write_seconds_total", "Time that writes took."),
    "archive-replayer-max-read-time": ("replayer_max_read_seconds", "Longest read of a block."),
    "archive-replayer-total-read-bytes": ("replayer_read_bytes_total", "Bytes read by the replayer."),
    "archive-replayer-total-read-time": ("replayer_read_seconds_total", "Time that reads took."),
}
"""Name and help of the metric of each counter that a running archive has once, by the name of the counter's type. Times
are nanoseconds in ``cnc.dat``."""

METRICS: dict[str, Metric] = {
    "up": Metric((), "1 if the archive's folder could be read, else 0 with no other metrics."),
    "live": Metric((), "1 if an archive runs: its heartbeat is younger than ten seconds."),
    "mark_readable": Metric((), "1 if there is no mark file or it can be read."),
    "info": Metric(("version", "pid", "archive_id"), "Version of the mark file, process id, archive id; always 1."),
    "heartbeat_timestamp_seconds": Metric((), "Last heartbeat, in seconds since 1970; absent after a clean close."),
    "heartbeat_age_seconds": Metric((), "Age of the last heartbeat; absent after a clean close."),
    "start_timestamp_seconds": Metric((), "Start of the archive, in seconds since 1970."),
    "free_bytes": Metric((), "Free bytes on the archive's file system."),
    "recordings": Metric(("state",), "Recordings by state."),
    "active_recordings": Metric((), "Recordings without stop position."),
    "recorded_bytes": Metric((), "Bytes of the recordings that are not deleted, by their positions."),
    "segments": Metric((), "Segment files."),
    "segment_bytes": Metric((), "Bytes of all segment files, as long as they are."),
    "catalog_damaged": Metric((), "1 if the catalog is missing or has a fault."),
    "distinct_errors": Metric((), "Errors in the error log."),
    "error_observations_total": Metric((), "Observations of all errors in the error log."),
    "counters_readable": Metric((), "1 if the counters of a running archive could be read from its driver."),
    "recording_position_bytes": Metric(("recording_id", "session_id"), "Position of a recording in progress."),
    **{name: Metric((), text) for name, text in COUNTER_METRICS.values()},
}
"""By name after the prefix. ``docs/monitoring.md`` lists them."""


class ArchiveCollector(StoreCollector):
    """Collects the metrics of archives' folders and, while they run, of their counters in the driver."""

    prefix = "everlog_archive_"
    metrics = METRICS

    def samples(self, path: str, storage: Storage) -> Iterator[Sample]:
        """Read the mark file, the catalog, the names of the segments, and the driver's counters."""
        now_ms = time.time_ns() // NS_PER_MS
        try:
            mark = load_mark(storage)
            yield Sample("mark_readable", 1)
        except CorruptData:
            mark = None
            yield Sample("mark_readable", 0)
        seen, space = observe_archive(storage, mark, now_ms), free_space(storage)
        yield Sample("live", int(mark is not None and mark.is_live(now_ms)))
        if mark is not None:
            yield from _mark_samples(mark, now_ms)
        yield Sample("free_bytes", None if space is None else space.free_bytes)
        for state, count in seen.states.items():
            yield Sample("recordings", count, (state,))
        yield Sample("active_recordings", seen.active)
        yield Sample("recorded_bytes", seen.recorded_bytes)
        yield Sample("segments", seen.segment_count)
        yield Sample("segment_bytes", seen.segment_bytes)
        yield Sample("catalog_damaged", int(seen.is_catalog_damaged))
        yield Sample("counters_readable", int(seen.counters is not None))
        yield from _counter_samples(seen.counters or ())


def _mark_samples(mark: ArchiveMark, now_ms: int) -> Iterator[Sample]:
    header = mark.header
    archive_id = mark.to_dict()["archive_id"]
    yield Sample("info", 1, (mark.version, str(header.pid), "" if archive_id is None else str(archive_id)))
    yield from heartbeat_samples(header.activity_timestamp, header.start_timestamp, now_ms)
    yield from error_samples(tuple(mark.errors))


def _counter_samples(counters: tuple[Counter, ...]) -> Iterator[Sample]:
    for counter in counters:
        if counter.type_name == RECORDING_POSITION:
            key = counter.key_fields
            labels = str(key["recording_id"]), str(key["session_id"])
            yield Sample("recording_position_bytes", counter.value, labels)
        elif counter.type_name in COUNTER_METRICS:
            name, _ = COUNTER_METRICS[counter.type_name]
            yield Sample(name, counter.value / NS_PER_S if "_seconds" in name else counter.value)
