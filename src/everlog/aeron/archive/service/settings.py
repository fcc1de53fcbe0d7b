"""How an archive service runs. Names and defaults are those of Aeron's ``Archive.Context``."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.recording.options import DEFAULT_SEGMENT_LENGTH
from everlog.aeron.family_options import Checksum
from everlog.runtime.idle import IdleStrategyName
from everlog.time_units import NS_PER_S


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSettings:
    """Settings of a service. Lengths are in bytes; each duration's name ends with its unit."""

    control_channel: str | None = None
    """Channel of control requests from other hosts, UDP; ``None``: only local ones."""
    control_stream_id: int = 10
    local_control_channel: str = "aeron:ipc?term-length=64k"
    local_control_stream_id: int = 10
    recording_events_channel: str | None = None
    """Channel of recording events; ``None``: they are not published."""
    recording_events_stream_id: int = 30
    replication_channel: str | None = None
    control_term_buffer_length: int = 64 << 10
    control_term_buffer_sparse: bool = True
    control_mtu_length: int | None = None
    """MTU of the response channels; ``None``: the driver's."""
    segment_file_length: int = DEFAULT_SEGMENT_LENGTH
    file_io_max_length: int = 1 << 20
    low_storage_space_threshold: int = 128 << 20
    file_sync_level: int = 0
    catalog_file_sync_level: int = 0
    catalog_capacity: int = 1 << 20
    max_concurrent_recordings: int = 20
    max_concurrent_replays: int = 20
    connect_timeout_ns: int = 5 * NS_PER_S
    session_liveness_check_interval_ns: int = NS_PER_S
    replay_linger_timeout_ns: int | None = None
    """How long a replay's publication lingers; ``None``: the driver's default."""
    archive_id: int | None = None
    """Identifies the archive to its clients; ``None``: the id of the archive's Aeron client."""
    record_checksum: Checksum = "none"
    replay_checksum: Checksum = "none"
    idle_strategy: IdleStrategyName = "backoff"
    """What the service's thread does when it has nothing to do."""
