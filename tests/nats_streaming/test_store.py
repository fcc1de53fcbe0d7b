"""The store as its users see it: detection, ranges, splits, options, names, memory."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalStorage
from everlog.core.report import Fault
from everlog.errors import CorruptData, FileChanged, UnknownStream, UsageError
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.testing.contract import Subject, check_store

Golden = Callable[[str], Path]


def detects(path: Path) -> bool:
    return NatsStreamingStore.detect(LocalStorage(path))


@pytest.mark.parametrize(
    "name", ["basic_sigterm", "broken/server_missing", "broken/clients_missing", "broken/server_trunc"]
)
def test_a_store_is_detected_even_without_server_dat(name: str, golden: Golden) -> None:
    assert detects(golden(name))


def test_other_folders_are_not_detected(tmp_path: Path, golden: Golden) -> None:
    assert not detects(tmp_path)
    for name in ("metastore", "00000000", "archive.catalog", "server.dat", "0-0.rec"):
        (tmp_path / name).write_bytes(b"\x02\x00\x00\x00\x00\x00")
    (tmp_path / "folder").mkdir()
    assert not detects(tmp_path)
    assert not detects(golden("cluster_1node"))  # the store is in a folder of it
    assert detects(golden("cluster_1node") / "store")


def test_a_channel_folder_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "foo").mkdir()
    (tmp_path / "foo" / "msgs.3.idx").write_bytes(b"")
    assert detects(tmp_path)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("basic_sigterm", {}),
        ("archive", {"include_bak": True}),
        ("lim_default_slice", {"max_msgs": 20}),
        ("encrypted_CHACHA", {"encryption_key": "mykey"}),
        ("broken/idx_missing_all", {}),
        ("broken/msgs_bad_crc_mid", {}),
    ],
)
def test_the_store_keeps_the_contract(name: str, options: dict[str, Any], golden: Golden) -> None:
    check_store(Subject(golden(name), family="nats-streaming", options=options), kernels=name == "basic_sigterm")


def test_ranges_are_half_open_over_slices_with_and_without_indexes(golden: Golden, opened: Any) -> None:
    for name in ("basic_sigterm", "broken/idx_missing_all"):
        with opened(golden(name)) as store:
            for start, end in (
                (None, None),
                (1, 38),
                (5, 6),
                (10, 12),
                (9, 35),
                (37, None),
                (38, None),
                (None, 1),
                (20, 10),
            ):
                found = [r.fields["sequence"] for r in store.read("foo", start=start, end=end)]
                assert found == [s for s in range(1, 38) if s >= (start or 0) and s < (end or 99)]


def test_damage_outside_of_the_range_is_not_reported(golden: Golden, opened: Any) -> None:
    with opened(golden("broken/msgs_bad_crc_mid")) as store:
        assert [r.fields["sequence"] for r in store.read("foo", start=14, end=20)] == list(range(14, 20))
        assert [r.fields["sequence"] for r in store.read("foo", end=13)] == list(range(1, 13))
        with pytest.raises(CorruptData, match=r"msgs\.2\.dat"):
            list(store.read("foo", start=13, end=14))


@pytest.mark.parametrize("name", ["basic_sigterm", "broken/msgs_bad_crc_last", "broken/msgs_trunc_mid_slice1"])
def test_splits_hold_every_record_and_every_fault_once(name: str, golden: Golden, opened: Any) -> None:
    with opened(golden(name)) as store:
        faults: list[Any] = []
        whole = [row for b in store.scan("foo", columns=["sequence"], on_fault=faults.append) for row in b.rows()]
        for size in (1, 3000, 1 << 30):
            found, met = [], []
            splits = pickle.loads(pickle.dumps(store.splits("foo", split_bytes=size)))
            assert len(splits) == {1: 4, 3000: 2, 1 << 30: 1}[size]
            for split in splits:
                for batch in store.scan_split(split, columns=["sequence"], on_fault=met.append):
                    found += list(batch.rows())
            assert (found, met) == (whole, faults)


def test_splits_respect_a_range_and_limits(golden: Golden, opened: Any) -> None:
    with opened(golden("basic_sigterm"), max_msgs=20) as store:
        found = []
        for split in store.splits("foo", start=15, end=33, split_bytes=1):
            found += [row[0] for b in store.scan_split(split, columns=["sequence"]) for row in b.rows()]
        assert found == list(range(18, 33))


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        ({"max_msgs": 37}, 1, 37),
        ({"max_msgs": 30}, 8, 30),
        ({"max_msgs": 7}, 31, 7),
        ({"max_msgs": 1}, 37, 1),
        ({"max_msgs": 0}, 1, 37),
        ({"max_msgs": -1}, 1, 37),
        ({"max_bytes": 7094}, 1, 37),
        ({"max_bytes": 7093}, 2, 36),
        ({"max_bytes": 1}, 37, 1),
        ({"max_bytes": 74}, 37, 1),
        ({"max_bytes": "1KB", "max_msgs": 4}, 34, 4),
    ],
)
def test_limits_drop_the_oldest_as_the_server_does(
    options: dict[str, Any], first: int, count: int, golden: Golden, opened: Any
) -> None:
    for name in ("basic_sigterm", "broken/idx_missing_all"):
        with opened(golden(name), **options) as store:
            info = {i.name: i for i in store.streams()}["foo"]
            assert (info.first, info.record_count) == (str(first), count)
            assert [r.fields["sequence"] for r in store.read("foo")] == list(range(first, 38))


@pytest.mark.parametrize(
    "options",
    [
        {"max_msgs": "many"},
        {"crc_poly": 0},
        {"crc_poly": "zlib"},
        {"crc": "maybe"},
        {"include_bak": "?"},
        {"nonsense": 1},
        {"now_ns": "later"},
        {"max_msgs": float("inf")},
        {"max_msgs": "9" * 5000},
        {"max_bytes": "9" * 5000},
        {"max_bytes": float("inf")},
        {"max_age": float("inf")},
        {"max_age": "9" * 400 + "h"},
        {"now_ns": float("inf")},
        {"now_ns": "9" * 5000},
        {"crc_poly": float("inf")},
    ],
)
def test_wrong_options_are_usage_errors(options: dict[str, Any], golden: Golden, opened: Any) -> None:
    with pytest.raises(UsageError):
        opened(golden("compacted"), **options)


def test_wrong_addresses_and_names_are_usage_errors(golden: Golden, opened: Any) -> None:
    with opened(golden("compacted")) as store:
        for text in ("", "-1", "1.5", "x", "٣", str(1 << 63), "9" * 5000):
            with pytest.raises(UsageError):
                store.parse_address(text)
        assert store.format_address(store.parse_address("17")) == "17"
        for name in ("nope", "../compacted", "", "."):
            with pytest.raises(UnknownStream):
                list(store.read(name))


@pytest.mark.parametrize("has_index", [True, False])
def test_the_highest_sequence_is_read(made: Any, tmp_path: Path, opened: Any, has_index: bool) -> None:
    last = (1 << 63) - 1
    payload = made.message(last, b"the last")
    files = {"idx_1": made.version + made.entry(last, 4, len(payload))} if has_index else {}
    with opened(made.store(tmp_path, dat_1=made.version + made.record(payload), **files)) as store:
        (info,) = store.streams()
        assert (info.first, info.record_count) == (str(last), 1)
        assert [r.payload for r in store.read("foo")] == [b"the last"]
        assert [r.payload for r in store.read("foo", start=str(last))] == [b"the last"]
        assert list(store.read("foo", end=str(last))) == []
        found = [
            row[0] for s in store.splits("foo") for b in store.scan_split(s, columns=["payload"]) for row in b.rows()
        ]
        assert found == [b"the last"]
        assert store.verify().ok


def test_a_channel_whose_name_is_no_utf8_is_read_under_its_escaped_name(made: Any, tmp_path: Path, opened: Any) -> None:
    root = made.store(tmp_path / "s")
    folder = os.fsencode(root) + b"/caf\xe9"
    os.mkdir(folder)
    dat, idx = made.slice(range(1, 3), channel=b"caf\xe9")
    for name, data in ((b"msgs.1.dat", dat), (b"msgs.1.idx", idx), (b"subs.dat", made.version)):
        with open(folder + b"/" + name, "wb") as file:
            file.write(data)
    with opened(root) as store:
        assert [i.name for i in store.streams()] == ["caf\\xe9", "foo"]
        records = list(store.read("caf\\xe9"))
        assert [r.payload for r in records] == [b"message 1", b"message 2"]
        assert records[0].fields["subject"] == "caf\ufffd"
        assert store.verify().ok


def test_a_link_out_of_the_store_is_not_followed(made: Any, tmp_path: Path, opened: Any) -> None:
    dat, idx = made.slice(range(1, 3))
    other = made.store(tmp_path / "other", dat_1=dat, idx_1=idx)
    root = made.store(tmp_path / "s")
    (root / "stolen").symlink_to(other / "foo")
    (root / "foo" / "msgs.1.dat").symlink_to(other / "foo" / "msgs.1.dat")
    with opened(root) as store:
        assert [i.name for i in store.streams()] == ["foo"]
        assert list(store.read("foo")) == []


def test_a_file_cut_while_it_is_read_is_an_error(made: Any, tmp_path: Path, opened: Any) -> None:
    dat, idx = made.slice(range(1, 60_000))
    root = made.store(tmp_path / "s", dat_1=dat, idx_1=idx)
    with opened(root) as store:
        batches = store.scan("foo", columns=["sequence"], max_rows=100)
        assert next(batches).row_count == 100
        os.truncate(root / "foo" / "msgs.1.dat", 600_000)
        with pytest.raises(FileChanged):
            list(batches)


def test_a_store_that_grows_is_read_anew(made: Any, tmp_path: Path, opened: Any) -> None:
    dat, idx = made.slice(range(1, 4))
    root = made.store(tmp_path / "s", dat_1=dat, idx_1=idx)
    with opened(root) as store:
        assert len(list(store.read("foo"))) == 3
        dat, idx = made.slice(range(1, 6))
        (root / "foo" / "msgs.1.dat").write_bytes(dat)
        (root / "foo" / "msgs.1.idx").write_bytes(idx)
        assert len(list(store.read("foo"))) == 5
        assert store.streams()[0].last == "5"


def test_subscription_kinds(golden: Golden, opened: Any) -> None:
    channels = opened(golden("basic_sigterm")).info()["channels"]
    found = {s["client_id"]: s["kind"] for c in channels.values() for s in c["subscriptions"]}
    assert found["c-plain"] == "plain"
    assert found["c-dur-off"] == "offline durable"
    assert found["c-dur-resume"] == "durable"
    assert found["c-dq1"] == "durable queue"
    assert {"queue", "offline durable queue"} & set(found.values())


def test_progress_is_told(golden: Golden, opened: Any) -> None:
    told: list[tuple[str, int, int]] = []
    opened(golden("basic_sigterm")).verify(lambda what, done, total: told.append((what, done, total)))
    assert told[0] == ("UPPER-case_1", 0, 7)
    assert told[-1] == ("", 7, 7)


def test_a_store_that_stays_open_sees_what_changed_in_a_small_slice(made: Any, tmp_path: Path) -> None:
    """A scan walks what its survey has read, and keeps none of it for the next one."""
    dat, idx = made.slice(range(1, 4))
    folder = tmp_path / "store" / "foo"
    folder.mkdir(parents=True)
    for name, data in (("msgs.1.dat", dat), ("msgs.1.idx", idx), ("subs.dat", made.version)):
        (folder / name).write_bytes(data)
    with NatsStreamingStore.open(LocalStorage(tmp_path / "store"), {}) as store:
        faults: list[Fault] = []
        assert [int(record.address) for record in store.read("foo", on_fault=faults.append)] == [1, 2, 3]
        assert faults == []
        damaged = bytearray(dat)
        damaged[20] ^= 1  # in the first record: the files are as long as before
        (folder / "msgs.1.dat").write_bytes(damaged)
        assert [int(record.address) for record in store.read("foo", on_fault=faults.append)] == [2, 3]
        assert [fault.code for fault in faults] == ["bad-crc"]
