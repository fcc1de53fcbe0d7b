"""The settings of an archive service: names, properties and defaults of Aeron's ``Archive.Context``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any

from everlog.aeron.archive.recording.options import DEFAULT_SEGMENT_LENGTH
from everlog.aeron.archive.service.settings.checks import check
from everlog.aeron.archive.service.settings.choices import (
    ThreadingMode,
    parse_checksum,
    parse_idle,
    parse_threading_mode,
)
from everlog.aeron.family_options import Checksum
from everlog.aeron.transport.driver.settings.property_values import (
    parse_boolean,
    parse_duration_ns,
    parse_int,
    parse_length,
    parse_long,
    parse_size,
    parse_text,
)
from everlog.runtime.idle import IdleStrategyName
from everlog.time_units import NS_PER_MS, NS_PER_S

PREFIX = "aeron.archive."


def _setting(default: Any, parse: Callable[[str, str], Any], name: str) -> Any:
    """A field with its default, and the property that gives it."""
    return field(default=default, metadata=_metadata(parse, name))


def _metadata(parse: Callable[[str, str], Any], name: str) -> dict[str, Any]:
    return {"property": PREFIX + name, "parse": parse}


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSettings:
    """Settings of a service, checked when they are made. Lengths are in bytes; each duration's name ends with its unit.
    Raises :class:`UsageError`, which names the property."""

    control_channel: str | None = _setting(None, parse_text, "control.channel")
    """Channel of control requests from other hosts, UDP; ``None``: only local ones."""
    control_stream_id: int = _setting(10, parse_int, "control.stream.id")
    local_control_channel: str = _setting("aeron:ipc?term-length=64k", parse_text, "local.control.channel")
    local_control_stream_id: int = _setting(10, parse_int, "local.control.stream.id")
    recording_events_channel: str | None = _setting(None, parse_text, "recording.events.channel")
    """Channel of recording events; ``None``: they are not published."""
    recording_events_stream_id: int = _setting(30, parse_int, "recording.events.stream.id")
    control_term_buffer_length: int = _setting(64 << 10, parse_length, "control.term.buffer.length")
    control_term_buffer_sparse: bool = _setting(True, parse_boolean, "control.term.buffer.sparse")
    control_mtu_length: int | None = _setting(None, parse_length, "control.mtu.length")
    """MTU of the response channels; ``None``: the driver's."""
    segment_file_length: int = _setting(DEFAULT_SEGMENT_LENGTH, parse_length, "segment.file.length")
    file_io_max_length: int = _setting(1 << 20, parse_length, "file.io.max.length")
    low_storage_space_threshold: int = _setting(128 << 20, parse_size, "low.storage.space.threshold")
    """Recordings are refused while the file system has no more usable bytes than this."""
    file_sync_level: int = _setting(0, parse_int, "file.sync.level")
    """0: the system writes when it wants; 1: a position is published when its bytes are on disk; 2: and the times."""
    catalog_file_sync_level: int = _setting(0, parse_int, "catalog.file.sync.level")
    catalog_capacity: int = _setting(1 << 20, parse_size, "catalog.capacity")
    max_concurrent_recordings: int = _setting(20, parse_int, "max.concurrent.recordings")
    max_concurrent_replays: int = _setting(20, parse_int, "max.concurrent.replays")
    connect_timeout_ns: int = _setting(5 * NS_PER_S, parse_duration_ns, "connect.timeout")
    session_liveness_check_interval_ns: int = _setting(NS_PER_S, parse_duration_ns, "session.liveness.check.interval")
    replay_linger_timeout_ns: int | None = _setting(None, parse_duration_ns, "replay.linger.timeout")
    """How long a replay's publication lingers; ``None``: the driver's default."""
    archive_id: int | None = _setting(None, parse_long, "id")
    """Identifies the archive to its clients; ``None``: the id of the archive's Aeron client."""
    record_checksum: Checksum = field(default="none", metadata=_metadata(parse_checksum, "record.checksum"))
    replay_checksum: Checksum = field(default="none", metadata=_metadata(parse_checksum, "replay.checksum"))
    conductor_cycle_threshold_ns: int = _setting(100 * NS_PER_MS, parse_duration_ns, "conductor.cycle.threshold")
    """A duty cycle that takes longer is counted."""
    recorder_cycle_threshold_ns: int = _setting(100 * NS_PER_MS, parse_duration_ns, "recorder.cycle.threshold")
    replayer_cycle_threshold_ns: int = _setting(100 * NS_PER_MS, parse_duration_ns, "replayer.cycle.threshold")
    threading_mode: ThreadingMode = field(default="SHARED", metadata=_metadata(parse_threading_mode, "threading.mode"))
    """``SHARED``: one thread does everything; ``DEDICATED``: conductor, recorder and replayer have one each."""
    idle_strategy: IdleStrategyName = field(default="backoff", metadata=_metadata(parse_idle, "idle.strategy"))
    """What the service's threads do when they have nothing to do."""
    recorder_idle_strategy: IdleStrategyName | None = field(
        default=None, metadata=_metadata(parse_idle, "recorder.idle.strategy")
    )
    """That of the recorder's own thread; ``None``: ``idle_strategy``."""
    replayer_idle_strategy: IdleStrategyName | None = field(
        default=None, metadata=_metadata(parse_idle, "replayer.idle.strategy")
    )
    mark_file_dir: str | None = _setting(None, parse_text, "mark.file.dir")
    """Folder of the mark file; ``None``: the one that the link file names, else the archive's."""
    dir_delete_on_start: bool = _setting(False, parse_boolean, "dir.delete.on.start")
    """Delete all recordings of the folder when the archive starts."""

    def __post_init__(self) -> None:
        check({name_of(one): getattr(self, one.name) for one in fields(self)})

    def lines(self) -> Iterator[str]:
        """Yield ``property=value`` for each setting that has a value, sorted by property."""
        for one in sorted(fields(self), key=name_of):
            value = getattr(self, one.name)
            if value is not None:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                yield f"{name_of(one)}={text}" + ("ns" if one.name.endswith("_ns") else "")


def name_of(one: Field[Any]) -> str:
    """The property of a field."""
    return str(one.metadata["property"])
