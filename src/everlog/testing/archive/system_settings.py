"""The times and sizes of a simulated system."""

from __future__ import annotations

from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.family_options import Checksum
from everlog.testing.archive.choices import SEGMENT_LENGTH
from everlog.time_units import NS_PER_MS, NS_PER_S

STEPS, CALM_STEPS = 1200, 300
STEP_NS, SETTLING_STEP_NS = 3 * NS_PER_MS, 10 * NS_PER_MS
ARCHIVE_ID = 5
EVENTS_STREAM = 30
CONNECT_TIMEOUT_NS, INTERVAL_NS = 500 * NS_PER_MS, 100 * NS_PER_MS
CLIENT_LIVENESS_NS, IMAGE_LIVENESS_NS = 800 * NS_PER_MS, 400 * NS_PER_MS
END_NS = CLIENT_LIVENESS_NS + 2 * IMAGE_LIVENESS_NS + CONNECT_TIMEOUT_NS + INTERVAL_NS + 500 * NS_PER_MS
"""Within this time both sides notice the end of the other one."""
ANSWER_NS = END_NS + NS_PER_S
LONGEST_PARTITION_NS = 1500 * NS_PER_MS
DRIVER = {
    "client_liveness_timeout_ns": CLIENT_LIVENESS_NS,
    "image_liveness_timeout_ns": IMAGE_LIVENESS_NS,
    "publication_connection_timeout_ns": IMAGE_LIVENESS_NS,
    "publication_linger_timeout_ns": 100 * NS_PER_MS,
    "timer_interval_ns": 10 * NS_PER_MS,
    "untethered_window_limit_timeout_ns": 200 * NS_PER_MS,
}


def archive_settings(control: str, sync_level: int, checksum: Checksum) -> ArchiveSettings:
    """The settings of the archive, whose control channel has the endpoint ``control``."""
    return ArchiveSettings(
        control_channel=f"aeron:udp?endpoint={control}",
        segment_file_length=SEGMENT_LENGTH,
        file_io_max_length=64 << 10,
        low_storage_space_threshold=0,
        file_sync_level=sync_level,
        catalog_file_sync_level=sync_level,
        max_concurrent_recordings=6,
        max_concurrent_replays=8,
        connect_timeout_ns=CONNECT_TIMEOUT_NS,
        session_liveness_check_interval_ns=INTERVAL_NS,
        record_checksum=checksum,
        replay_checksum=checksum,
        recording_events_channel="aeron:ipc?term-length=64k",
        recording_events_stream_id=EVENTS_STREAM,
    )
