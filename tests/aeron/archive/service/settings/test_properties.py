"""The archive's properties: sources, values, and what is said of those without effect."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.service.settings.properties import WITHOUT_EFFECT, Loaded, load
from everlog.aeron.archive.service.settings.settings import ArchiveSettings, name_of
from everlog.errors import UsageError

MS, SECOND = 1_000_000, 1_000_000_000


def of(*given: str, **sources: Any) -> Loaded:
    return load(sources.pop("files", ()), sources.pop("environment", {}), given, **sources)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("control.channel=aeron:udp?endpoint=localhost:8010", "control_channel", "aeron:udp?endpoint=localhost:8010"),
        ("control.stream.id=11", "control_stream_id", 11),
        ("local.control.channel=aeron:ipc", "local_control_channel", "aeron:ipc"),
        ("local.control.stream.id=12", "local_control_stream_id", 12),
        ("control.term.buffer.length=128k", "control_term_buffer_length", 128 << 10),
        ("control.term.buffer.sparse=false", "control_term_buffer_sparse", False),
        ("control.mtu.length=4k", "control_mtu_length", 4096),
        ("segment.file.length=1m", "segment_file_length", 1 << 20),
        ("file.io.max.length=64k", "file_io_max_length", 64 << 10),
        ("low.storage.space.threshold=0", "low_storage_space_threshold", 0),
        ("catalog.capacity=2m", "catalog_capacity", 2 << 20),
        ("catalog.file.sync.level=2", "catalog_file_sync_level", 2),
        ("max.concurrent.recordings=200", "max_concurrent_recordings", 200),
        ("max.concurrent.replays=0", "max_concurrent_replays", 0),
        ("connect.timeout=5000000000ns", "connect_timeout_ns", 5 * SECOND),
        ("connect.timeout=300ms", "connect_timeout_ns", 300 * MS),
        ("session.liveness.check.interval=2s", "session_liveness_check_interval_ns", 2 * SECOND),
        ("replay.linger.timeout=0", "replay_linger_timeout_ns", 0),
        ("id=42", "archive_id", 42),
        ("id=-3", "archive_id", -3),
        ("record.checksum=io.aeron.archive.checksum.Crc32c", "record_checksum", "crc32c"),
        ("replay.checksum=io.aeron.archive.checksum.Crc32", "replay_checksum", "crc32"),
        ("record.checksum=crc-32c", "record_checksum", "crc32c"),
        ("idle.strategy=org.agrona.concurrent.BusySpinIdleStrategy", "idle_strategy", "spin"),
        ("recorder.idle.strategy=org.agrona.concurrent.YieldingIdleStrategy", "recorder_idle_strategy", "yield"),
        ("replayer.idle.strategy=noop", "replayer_idle_strategy", "noop"),
        ("recorder.cycle.threshold=7ms", "recorder_cycle_threshold_ns", 7 * MS),
        ("replayer.cycle.threshold=8ms", "replayer_cycle_threshold_ns", 8 * MS),
        ("threading.mode=DEDICATED", "threading_mode", "DEDICATED"),
        ("threading.mode=SHARED", "threading_mode", "SHARED"),
        ("mark.file.dir=/run/mark", "mark_file_dir", "/run/mark"),
        ("dir.delete.on.start=true", "dir_delete_on_start", True),
    ],
)
def test_values(text: str, field: str, value: object) -> None:
    loaded = of(f"aeron.archive.{text}")
    assert getattr(loaded.settings, field) == value
    assert loaded.warnings == ()


def test_every_property_has_a_field_of_its_own() -> None:
    names = [name_of(one) for one in fields(ArchiveSettings)]
    assert len(set(names)) == len(names)
    assert not {*names} & {*WITHOUT_EFFECT}


def test_defaults_are_aerons() -> None:
    settings = of().settings
    assert settings == ArchiveSettings()
    assert settings.control_channel is None
    assert (settings.segment_file_length, settings.file_io_max_length) == (128 << 20, 1 << 20)
    assert (settings.max_concurrent_recordings, settings.max_concurrent_replays) == (20, 20)
    assert settings.connect_timeout_ns == 5 * SECOND
    assert of().folder == "aeron-archive"


def test_later_sources_win(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("aeron.archive.id=1\naeron.archive.control.stream.id=100\n")
    second.write_text("aeron.archive.control.stream.id=101\naeron.archive.dir=/data/two\n")
    files = (str(first), str(second))
    assert (of(files=files).settings.archive_id, of(files=files).settings.control_stream_id) == (1, 101)
    environment = {"AERON_ARCHIVE_CONTROL_STREAM_ID": "102", "AERON_ARCHIVE_DIR": "/data/three", "AERON_DIR": "/d"}
    loaded = of(files=files, environment=environment)
    assert (loaded.settings.control_stream_id, loaded.folder, loaded.driver_folder) == (102, "/data/three", "/d")
    loaded = of("aeron.archive.control.stream.id=103", "aeron.dir=/e", files=files, environment=environment)
    assert (loaded.settings.control_stream_id, loaded.driver_folder) == (103, "/e")


def test_the_control_channel_can_be_switched_off() -> None:
    channel = "aeron.archive.control.channel=aeron:udp?endpoint=localhost:8010"
    assert of(channel, "aeron.archive.control.channel.enabled=false").settings.control_channel is None


def test_recording_events_are_off_until_they_are_enabled() -> None:
    channel = "aeron.archive.recording.events.channel=aeron:ipc"
    assert of(channel).settings.recording_events_channel is None
    assert of(channel, "aeron.archive.recording.events.enabled=true").settings.recording_events_channel == "aeron:ipc"
    with pytest.raises(UsageError, match=r"recording\.events\.channel"):
        of("aeron.archive.recording.events.enabled=true")


def test_a_driver_is_configured_from_the_same_sources() -> None:
    loaded = of("aeron.dir=/dev/shm/mine", "aeron.term.buffer.length=1m", has_driver=True)
    assert loaded.driver is not None
    assert loaded.driver_folder is None
    assert (loaded.driver.dir, loaded.driver.publication_term_buffer_length) == ("/dev/shm/mine", 1 << 20)
    assert "aeron.term.buffer.length=1048576" in [*loaded.lines()]


def test_a_drivers_property_without_a_driver_is_warned_of() -> None:
    (warning,) = of("aeron.term.buffer.length=1m").warnings
    assert warning.startswith("aeron.term.buffer.length (command line) has no effect")


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_a_property_without_effect_is_warned_of(name: str) -> None:
    (warning,) = of(f"{name}=x").warnings
    assert warning == f"{name} (command line) has no effect: {WITHOUT_EFFECT[name]}"


def test_the_threading_mode_of_an_invoker_is_shared() -> None:
    loaded = of("aeron.archive.threading.mode=INVOKER")
    assert loaded.settings.threading_mode == "SHARED"
    (warning,) = loaded.warnings
    assert (
        warning == "aeron.archive.threading.mode (command line) means SHARED here: the service has a thread of its own"
    )


def test_an_unknown_property_is_warned_of() -> None:
    (warning,) = of("aeron.archive.segment.file.lenght=1m").warnings
    assert warning.endswith("did you mean aeron.archive.segment.file.length?")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("aeron.archive.segment.file.length=100k", "aeron.archive.segment.file.length"),
        ("aeron.archive.segment.file.length=2g", "aeron.archive.segment.file.length"),
        ("aeron.archive.file.io.max.length=32k", "aeron.archive.file.io.max.length"),
        ("aeron.archive.file.sync.level=3", "aeron.archive.file.sync.level"),
        ("aeron.archive.file.sync.level=1", "aeron.archive.catalog.file.sync.level"),
        ("aeron.archive.max.concurrent.replays=-1", "aeron.archive.max.concurrent.replays"),
        ("aeron.archive.control.channel=aeron:ipc", "aeron.archive.control.channel"),
        ("aeron.archive.control.channel=udp", "aeron.archive.control.channel"),
        ("aeron.archive.local.control.channel=aeron:udp?endpoint=a:1", "aeron.archive.local.control.channel"),
        ("aeron.archive.record.checksum=com.acme.Sum", "aeron.archive.record.checksum"),
        ("aeron.archive.threading.mode=MANY", "aeron.archive.threading.mode"),
        ("aeron.archive.connect.timeout=soon", "aeron.archive.connect.timeout"),
        ("aeron.archive.dir.delete.on.start=maybe", "aeron.archive.dir.delete.on.start"),
        ("aeron.archive.recorder.idle.strategy=nap", "aeron.archive.recorder.idle.strategy"),
        ("aeron.archive.authenticator.supplier=com.acme.Guard", "aeron.archive.authenticator.supplier"),
        ("aeron.archive.authenticator.supplier=simple", "aeron.archive.authenticator.supplier"),
        ("aeron.archive.idle.strategy=controllable", "aeron.archive.idle.strategy"),
        ("no-value", "property on the command line"),
    ],
)
def test_a_wrong_value_names_its_property(given: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(given)
    assert caught.value.where == where


def test_aerons_own_suppliers_are_ours() -> None:
    assert of("aeron.archive.authenticator.supplier=io.aeron.security.DefaultAuthenticatorSupplier").warnings == ()
    loaded = of("aeron.archive.authenticator.supplier=simple", "aeron.archive.security.file=/etc/rules.toml")
    assert loaded.security_file == "/etc/rules.toml"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authenticator.supplier", "io.aeron.samples.archive.SampleAuthenticatorSupplier"),
        ("authenticator.supplier", "sample"),
        ("authorisation.service.supplier", "io.aeron.samples.archive.SampleAuthorisationService"),
    ],
)
def test_the_classes_of_aerons_samples_are_ours_with_a_warning(name: str, value: str) -> None:
    loaded = of(f"aeron.archive.{name}={value}")
    chosen = loaded.authenticator if name.startswith("authenticator") else loaded.authorisation
    assert chosen == "sample"
    (warning,) = loaded.warnings
    assert warning.endswith("use it for tests only")
    assert f"aeron.archive.{name}=sample" in [*loaded.lines()]


def test_lines_can_be_read_back(tmp_path: Path) -> None:
    given = ["aeron.archive.id=7", "aeron.archive.connect.timeout=250ms", "aeron.archive.dir=/data"]
    loaded = of(*given)
    path = tmp_path / "printed"
    path.write_text("\n".join(loaded.lines()))
    again = of(files=(str(path),))
    assert (again.settings, again.folder, again.warnings) == (loaded.settings, loaded.folder, ())
