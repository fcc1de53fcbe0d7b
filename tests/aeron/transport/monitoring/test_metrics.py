"""Metrics of media drivers, against what the real tools said about a frozen folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import tests
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.monitoring.metrics import METRICS, SYSTEM_METRICS, DriverCollector
from everlog.testing.contract import snapshot
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.transport.folder import driver_folder as made

GOLDEN = tests.GOLDEN / "aeron" / "transport"
HEARTBEAT_MS = 1_795_242_081_855
"""Of the frozen driver."""
LINE = re.compile(r" *(\d+): +([\d,]+) - (.*)")
Samples = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """626 ms after the heartbeat: when AeronStat ran."""
    monkeypatch.setattr("time.time_ns", lambda: (HEARTBEAT_MS + 626) * 1_000_000)


def samples(collector: DriverCollector) -> Samples:
    """Name and labels, in the order of the labels' names and without the path, to value."""
    registry = CollectorRegistry()
    registry.register(collector)
    found: Samples = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = sorted((name, text) for name, text in sample.labels.items() if name != "path")
            key = (sample.name.removeprefix("everlog_driver_"), *(text for _, text in labels))
            assert key not in found
            found[key] = sample.value
    return found


@pytest.fixture
def golden(golden_archive: Callable[[str], Path]) -> Iterator[Samples]:
    folder = golden_archive("transport/aeron-dir")
    before = snapshot(folder)
    yield samples(DriverCollector([folder]))
    assert snapshot(folder) == before


def test_each_system_counter_but_the_versions_has_a_metric() -> None:
    versions = {SystemCounter.AERON_VERSION, SystemCounter.CONTROL_PROTOCOL_VERSION}
    assert set(SystemCounter) - set(SYSTEM_METRICS) == versions
    assert len(set(SYSTEM_METRICS.values())) == len(SYSTEM_METRICS)


def test_system_counters_are_what_aeron_stat_printed(golden: Samples) -> None:
    printed = {}
    for line in (GOLDEN / "AeronStat.txt").read_text().splitlines():
        match = LINE.fullmatch(line)
        if match is not None:
            printed[match[3].partition(":")[0]] = int(match[2].replace(",", ""))
    names = {
        "Bytes sent": "sent_bytes_total",
        "Bytes received": "received_bytes_total",
        "NAKs sent": "naks_sent_total",
        "Status Messages sent": "status_messages_sent_total",
        "Status Messages received": "status_messages_received_total",
        "Heartbeats sent": "heartbeats_sent_total",
        "Retransmits sent": "retransmits_sent_total",
        "Errors": "errors_total",
        "Bytes currently mapped": "mapped_bytes",
        "Retransmitted bytes": "retransmitted_bytes_total",
    }
    assert {name: golden[name,] for name in names.values()} == {name: printed[text] for text, name in names.items()}
    slowest = printed["Conductor max cycle time doing its work in ns"]
    assert golden["conductor_max_cycle_seconds",] == pytest.approx(slowest / 1e9)


def test_a_drivers_state_is_told(golden: Samples) -> None:
    assert (golden["up",], golden["live",], golden["clients",], golden["counters",]) == (1, 1, 2, 95)
    assert golden["info", "17613", "0.2.0"] == 1
    assert golden["heartbeat_timestamp_seconds",] == HEARTBEAT_MS / 1000
    assert golden["heartbeat_age_seconds",] == pytest.approx(0.626)
    assert golden["start_timestamp_seconds",] == 1_795_242_078.759
    assert (golden["distinct_errors",], golden["error_observations_total",]) == (2, 2)


def test_positions_events_and_losses_are_told_by_stream(golden: Samples) -> None:
    lossy = "aeron:udp?endpoint=localhost:18301"
    # StreamStat: registration 9 of session 1669679053, its image 11, subscriptions 3 and (a spy) 7.
    publication = (f"{lossy}|term-length=64k|alias=lossy", "9", "1669679053", "1")
    assert golden["stream_position_bytes", *publication, "publisher-position"] == 449_600
    assert golden["stream_position_bytes", *publication, "sender-limit"] == 476_320
    assert golden["stream_events_total", *publication, "sender-naks-received"] == 258
    assert golden["stream_position_bytes", lossy, "11", "1669679053", "1", "receiver-hwm"] == 449_600
    assert golden["subscriber_backlog_bytes", lossy, "3", "1669679053", "1"] == 0
    assert golden["channel_status", lossy, "receive-channel-status"] == 1
    # LossStat: three images with 52, 18 and 23 losses.
    assert golden["lost_bytes_total", lossy, "1669679053", "127.0.0.1:54253", "1"] == 32_256
    assert sorted(value for key, value in golden.items() if key[0] == "loss_observations_total") == [18, 23, 52]


def test_backlogs_are_worked_out_from_the_receivers_mark() -> None:
    found = samples(DriverCollector(["d"], open_storage=lambda path: MemoryStorage(made.folder())))
    # Made by hand: the image has seen 192 bytes, its subscription read 64; its key names another channel.
    assert found["stream_position_bytes", "aeron:ipc?alias=a", "11", "77", "5", "receiver-hwm"] == 192
    assert found["subscriber_backlog_bytes", "aeron:ipc?alias=a", "10", "77", "5"] == 128
    assert found["live",] == 0
    assert found["heartbeat_age_seconds",] == (HEARTBEAT_MS + 626 - 1_700_000_000_000) / 1000


def test_a_folder_without_cnc_is_down() -> None:
    errors: list[Exception] = []
    collector = DriverCollector(
        ["d"], open_storage=lambda path: MemoryStorage({}), on_error=lambda path, error: errors.append(error)
    )
    assert samples(collector) == {("up",): 0}
    assert len(errors) == 1


def test_every_sample_is_of_a_described_metric(golden: Samples) -> None:
    assert {key[0] for key in golden} <= set(METRICS)
