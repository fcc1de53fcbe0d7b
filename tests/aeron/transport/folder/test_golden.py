"""A driver's folder frozen while it was in use, against what the real system said about it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
import tests
from everlog.aeron.transport.format.cnc_file import CncFile, driver_errors
from everlog.aeron.transport.format.loss_report import load_losses
from everlog.core.files.storage import LocalStorage
from everlog.core.report import Fault
from everlog.core.store import Level
from everlog.testing.contract import Subject, check_store, snapshot

GOLDEN = tests.GOLDEN / "aeron" / "transport"
SEEDS = {
    "publications/9": 50,
    "publications/10": 51,
    "publications/12": 52,
    "publications/13": 53,
    "images/11": 50,
    "images/20": 51,
    "images/21": 51,
}
"""Stream to the seed of its messages, which their reserved values name."""


@pytest.fixture(scope="module")
def folder(golden_archive: Callable[[str], Path]) -> Path:
    return golden_archive("transport/aeron-dir")


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    with gzip.open(GOLDEN / "cnc-truth.json.gz") as file:
        found: dict[str, Any] = json.load(file)
    return found


@pytest.fixture(scope="module")
def clients_truth() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "truth.json").read_text())
    return found


def test_every_counter_is_what_the_real_reader_says(folder: Path, truth: dict[str, Any]) -> None:
    with CncFile.open(LocalStorage(folder)) as cnc:
        counters = cnc.counters()
        assert cnc.max_counter_id == truth["maxCounterId"]
    assert len(counters) == len(truth["counters"]) == 95
    for counter, expected in zip(counters, truth["counters"], strict=True):
        assert expected == {
            "id": counter.counter_id,
            "typeId": counter.type_id,
            "state": counter.state,
            "label": counter.label,
            "keyHex": counter.key.hex(),
            "value": counter.value,
            "registrationId": counter.registration_id,
            "ownerId": counter.owner_id,
            "referenceId": counter.reference_id,
            "freeForReuseDeadline": counter.free_for_reuse_deadline,
        }


def test_keys_agree_with_labels(folder: Path) -> None:
    with CncFile.open(LocalStorage(folder)) as cnc:
        by_id = {counter.counter_id: counter for counter in cnc.counters()}
    for number in range(46):
        assert by_id[number].key_fields == {"system_counter_id": number}
    for counter in by_id.values():
        key, rest = counter.key_fields, counter.label.partition(": ")[2]
        if "stream_id" in key:
            assert rest.startswith(f"{key['registration_id']} {key['session_id']} {key['stream_id']} {key['channel']}")
        elif "local_address" in key:
            assert rest == f"{key['channel_status_id']} {key['local_address']}"
        elif "channel" in key:
            assert rest.startswith(f"{key['channel']} ")
        elif "client_id" in key:
            assert rest.startswith(f"id={key['client_id']} ")
    assert {c.type_name for c in by_id.values() if not c.key_fields} == {None}


def test_the_metadata_is_what_the_real_reader_says(folder: Path, truth: dict[str, Any]) -> None:
    meta = truth["cncMeta"]
    with CncFile.open(LocalStorage(folder)) as cnc:
        header = cnc.header
        assert cnc.version == meta["cncVersionString"]
        assert cnc.size == meta["fileLength"]
        assert cnc.problem is None
        # DriverTool.txt: activity 2026-11-21 06:21:21
        assert (cnc.heartbeat_ms() or 0) // 1000 == 1795242081
    assert header.cnc_version == meta["cncVersion"]
    assert header.to_driver_buffer_length == meta["toDriverBufferLength"]
    assert header.to_clients_buffer_length == meta["toClientsBufferLength"]
    assert header.counters_metadata_buffer_length == meta["countersMetaDataBufferLength"]
    assert header.counters_values_buffer_length == meta["countersValuesBufferLength"]
    assert header.error_log_buffer_length == meta["errorLogBufferLength"]
    assert header.client_liveness_timeout_ns == meta["clientLivenessTimeoutNs"]
    assert header.start_timestamp_ms == meta["startTimestampMs"]
    assert header.pid == meta["pid"]


def test_distinct_errors_and_losses_are_those_of_the_real_readers(folder: Path, truth: dict[str, Any]) -> None:
    errors = driver_errors(LocalStorage(folder))
    assert [
        {
            "count": error.observation_count,
            "first": error.first_observation_timestamp,
            "last": error.last_observation_timestamp,
            "text": error.text,
        }
        for error in errors
    ] == truth["errors"]
    losses = load_losses(LocalStorage(folder))
    assert losses is not None
    assert losses[1] is None
    names = ["observationCount", "totalBytesLost", "first", "last", "sessionId", "streamId", "channel", "source"]
    found = [dict(zip(names, loss.to_dict().values(), strict=True)) for loss in losses[0]]
    assert found == truth["lossReport"]


def test_log_buffers_have_the_metadata_that_the_real_reader_says(folder: Path, truth: dict[str, Any]) -> None:
    with everlog.open_store(folder) as store:
        found = {log["stream"]: log for log in store.info()["log_buffers"]}
    assert len(found) == len(truth["logBuffers"]) == 8
    for expected in truth["logBuffers"]:
        log = found[expected["file"].removesuffix(".logbuffer")]
        assert log["file_length"] == expected["length"]
        assert log["term_length"] == expected["termLength"]
        assert log["page_size"] == expected["pageSize"]
        assert log["mtu_length"] == expected["mtuLength"]
        assert log["initial_term_id"] == expected["initialTermId"]
        assert log["active_term_count"] == expected["activeTermCount"]
        assert [tail["raw_tail"] for tail in log["tails"]] == expected["rawTails"]
        assert log["correlation_id"] == expected["correlationId"]
        assert (log["is_connected"] == 1) == expected["isConnected"]
        assert log["active_transport_count"] == expected["activeTransportCount"]
        assert log["end_of_stream_position"] is None
        assert expected["endOfStreamPosition"] == (1 << 63) - 1


def test_frames_that_the_real_reader_walked_are_rows(folder: Path, truth: dict[str, Any]) -> None:
    columns = ["term_offset", "length", "flags", "session_id", "stream_id", "term_id", "reserved_value", "crc32"]
    walked = 0
    with everlog.open_store(folder) as store:
        for log in truth["logBuffers"]:
            stream = log["file"].removesuffix(".logbuffer")
            faults: list[Fault] = []
            rows = set()
            for batch in store.scan(stream, level="frame", columns=columns, on_fault=faults.append):
                rows.update(batch.rows())
            assert faults == []
            for term in log["terms"]:
                for offset, length, flags, kind, _, session, stream_id, term_id, reserved, crc in term["frames"]:
                    if kind == 1:
                        walked += 1
                        assert (offset, length - 32, flags, session, stream_id, term_id, reserved, crc) in rows
    assert walked == 98 + 600 + 98 + 600 + 600


def test_messages_are_those_that_were_published(folder: Path) -> None:
    count = 0
    with everlog.open_store(folder) as store:
        for stream, seed in SEEDS.items():
            for record in store.read(stream):
                found, number = divmod(record.fields["reserved_value"], 1 << 32)
                length, step = len(record.payload), 1 + (number & 3)
                assert found == seed
                # The length is part of each byte: a message that was put together wrongly would show.
                assert record.payload == bytes(
                    (seed * 31 + number * 7 + length + j * step) & 0xFF for j in range(length)
                )
                count += 1
    assert count > 1900


def test_streams_end_where_their_publishers_and_subscribers_were(folder: Path, clients_truth: dict[str, Any]) -> None:
    with everlog.open_store(folder) as store:
        infos = {info.name: info for info in store.streams()}
    for publication in clients_truth["publications"]:
        info = infos[f"publications/{publication['registrationId']}"]
        assert info.end == str(publication["position"])
        assert info.details["channel"] == publication["channel"]
        assert info.details["session_id"] == publication["sessionId"]
        assert info.details["stream_id"] == publication["streamId"]
        assert info.details["is_connected"] == publication["isConnected"]
    images = [i for i in clients_truth["images"] if i["sourceIdentity"] != "aeron:ipc"]
    assert len(images) == 3
    for image in images:
        info = infos[f"images/{image['imageCorrelationId']}"]
        assert info.end == str(image["position"])
        assert info.details["initial_term_id"] == image["initialTermId"]
        assert info.details["term_length"] == image["termBufferLength"]
        assert info.details["mtu_length"] == image["mtu"]


def test_images_are_the_same_without_counters(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("11", "20"):
        shutil.copy(folder / f"images/{name}.logbuffer", tmp_path / "images")
    with everlog.open_store(folder) as store, everlog.open_store(tmp_path) as bare:
        assert bare.family == "aeron-driver"
        ends = {info.name: info.end for info in bare.streams()}
        assert ends == {"images/11": "449600", "images/20": "57600"}
        for stream in ends:
            assert list(bare.read(stream)) == list(store.read(stream))


def test_the_store_keeps_the_contract_with_both_kernels(folder: Path) -> None:
    check_store(Subject(folder, levels=(Level.RECORD, Level.FRAME)))


def test_looking_changes_no_byte(folder: Path) -> None:
    before = snapshot(folder)
    with everlog.open_store(folder) as store:
        store.info()
        store.verify()
        for info in store.streams():
            assert list(store.read(info.name))
    assert snapshot(folder) == before
