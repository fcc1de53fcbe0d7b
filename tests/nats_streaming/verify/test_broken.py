"""Damaged copies of a real store: each gives its fault, and every record that is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.core.report import Severity
from everlog.nats_streaming.verify.faults import FAULT_CODES

Golden = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]

ALL = list(range(1, 38))
SERVER = "server.dat"
CLIENTS = "clients.dat"
SLICE_4, INDEX_4 = "foo/msgs.4.dat", "foo/msgs.4.idx"

Place = tuple[str, str, int | None]


class Case:
    """Faults and notes of ``verify``, faults met while reading channel foo, and the sequences it gives."""

    def __init__(
        self, *faults: Place, notes: tuple[Place, ...] = (), read: tuple[Place, ...] = (), without: range = range(0)
    ) -> None:
        self.faults = list(faults)
        self.notes = list(notes)
        self.read = list(read)
        self.sequences = [s for s in ALL if s not in without]


TORN_37 = ("torn-record", SLICE_4, 1307)
CASES = {
    "msgs_trunc_payload": Case(
        TORN_37, notes=(("index-damaged", INDEX_4, 196),), read=(TORN_37,), without=range(37, 38)
    ),
    "msgs_trunc_mid_slice1": Case(
        ("torn-record", "foo/msgs.1.dat", 1382),
        notes=(("index-damaged", "foo/msgs.1.idx", 292),),
        read=(("torn-record", "foo/msgs.1.dat", 1382),),
        without=range(10, 11),
    ),
    "msgs_bad_crc_last": Case(
        ("bad-crc", SLICE_4, 1307),
        notes=(("index-damaged", INDEX_4, 196),),
        read=(("bad-crc", SLICE_4, 1307),),
        without=range(37, 38),
    ),
    "msgs_bad_crc_mid": Case(
        ("bad-crc", "foo/msgs.2.dat", 188), read=(("bad-crc", "foo/msgs.2.dat", 188),), without=range(13, 14)
    ),
    "msgs_zero_tail": Case(notes=(("zero-padding", SLICE_4, 1349),)),
    "msgs_short_header_file": Case(
        ("short-version-word", SLICE_4, 0), read=(("short-version-word", SLICE_4, 0),), without=range(31, 38)
    ),
    "msgs_bad_version": Case(("file-version", SLICE_4, 0), read=(("file-version", SLICE_4, 0),)),
    "idx_missing_one": Case(notes=(("index-missing", "foo/msgs.2.idx", None),)),
    "idx_trunc_whole": Case(("orphan-record", SLICE_4, 1307), without=range(37, 38)),
    "idx_header_only_dat_trunc": Case(
        TORN_37, notes=(("index-damaged", INDEX_4, 4),), read=(TORN_37,), without=range(37, 38)
    ),
    "idx_only_dat_missing": Case(
        ("slice-missing", "foo/msgs.2.idx", None),
        read=(("slice-missing", "foo/msgs.2.idx", None),),
        without=range(11, 21),
    ),
    "subs_bad_crc": Case(("bad-crc", "foo/subs.dat", 4)),
    "subs_bad_type": Case(("bad-record-type", "foo/subs.dat", 4)),
    "subs_zero_tail": Case(notes=(("zero-padding", "foo/subs.dat", 904),)),
    "subs_missing": Case(("subs-missing", "foo/subs.dat", None)),
    "clients_bad_crc": Case(("bad-crc", CLIENTS, 4)),
    "clients_bad_type": Case(("bad-record-type", CLIENTS, 4)),
    "clients_missing": Case(
        ("clients-missing", CLIENTS, None), notes=(("ghost-subscription", "a.b.c.d/subs.dat", None),) * 2
    ),
    "server_trunc": Case(("torn-record", SERVER, 4)),
    "server_bad_crc": Case(("bad-crc", SERVER, 4)),
    "server_header_only": Case(("server-missing", SERVER, 4)),
    "server_missing": Case(("server-missing", SERVER, None)),
    "dir_stray": Case(notes=(("compaction-leftover", "clients.dat123", None), ("stray-folder", "stray", None))),
}
INDEXES = [
    *("UPPER-case_1/msgs.1", "a.b.c.d/msgs.1", "a.b.c.d/msgs.2", "a.b.c.d/msgs.3", "données.été/msgs.1"),
    *("données.été/msgs.2", "empty.channel/msgs.1", "foo/msgs.1", "foo/msgs.2", "foo/msgs.3", "foo/msgs.4"),
    *("one/msgs.1", "orders.eu.new/msgs.1", "orders.eu.new/msgs.2", "orders.eu.new/msgs.3"),
]
CASES["idx_missing_all"] = Case(notes=tuple(("index-missing", f"{name}.idx", None) for name in INDEXES))


def test_every_damaged_store_has_its_expectation(truth: Truth) -> None:
    assert set(CASES) == set(truth("broken"))


@pytest.mark.parametrize("name", CASES)
def test_verify_reports_the_damage_where_it_is(name: str, golden: Golden, opened: Any) -> None:
    case = CASES[name]
    report = opened(golden(f"broken/{name}")).verify()
    faults = [(f.code, f.file, f.offset) for f in report.faults if f.severity is Severity.FAULT]
    notes = [(f.code, f.file, f.offset) for f in report.faults if f.severity is Severity.NOTE]
    assert (faults, notes) == (case.faults, case.notes)
    assert report.exit_code == (1 if faults else 0)
    assert all(f.code in FAULT_CODES and f.found and f.expected and f.loses and f.repair for f in report.faults)


@pytest.mark.parametrize("name", CASES)
def test_every_undamaged_record_is_read_and_no_other(
    name: str, golden: Golden, truth: Truth, opened: Any, reading: Any
) -> None:
    case = CASES[name]
    whole = {m["seq"]: m for m in truth("basic_sigterm.truth")["channels"]["foo"]["messages"]}
    with opened(golden(f"broken/{name}")) as store:
        found = reading(store)
        assert found.sequences == case.sequences
        assert found.codes == case.read
        for record in found.records:
            said = whole[record.fields["sequence"]]
            assert (record.timestamp_ns, record.fields["length"], record.fields["offset"]) == (
                said["timestamp"],
                said["len"],
                said["offset"],
            )


BROKEN: dict[str, Any] = json.loads((tests.GOLDEN / "nats_streaming" / "broken.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in CASES if BROKEN[name]["runs"]["default"]["started"]])
def test_where_the_server_starts_it_has_the_same_channels(name: str, golden: Golden, opened: Any) -> None:
    run = BROKEN[name]["runs"]["default"]
    with opened(golden(f"broken/{name}")) as store:
        found = {
            info.name: [int(info.first or 0), int(info.last or 0), info.record_count, info.byte_count]
            for info in store.streams()
        }
    assert found == {channel: numbers[:4] for channel, numbers in run["channels"].items()}


@pytest.mark.parametrize("name", CASES)
def test_what_stops_the_server_is_a_fault(name: str, golden: Golden, truth: Truth, opened: Any) -> None:
    if not truth("broken")[name]["runs"]["default"]["started"]:
        assert not opened(golden(f"broken/{name}")).verify().ok


@pytest.mark.parametrize("name", ["msgs_bad_crc_last", "msgs_bad_crc_mid", "subs_bad_crc", "clients_bad_crc"])
def test_without_checksums_the_damaged_bytes_are_taken_as_the_server_does(
    name: str, golden: Golden, truth: Truth, opened: Any, reading: Any
) -> None:
    run = truth("broken")[name]["runs"]["file_crc=false"]
    with opened(golden(f"broken/{name}"), crc=False) as store:
        assert reading(store).sequences == ALL
        info = {i.name: i for i in store.streams()}["foo"]
        assert [int(info.first), int(info.last), info.record_count, info.byte_count] == run["channels"]["foo"][:4]
        assert len(store.info()["clients"]) == run["clients"]


def test_a_subscription_whose_record_is_damaged_is_not_there_and_the_others_are(
    golden: Golden, truth: Truth, opened: Any
) -> None:
    whole = truth("basic_sigterm.truth")["channels"]["foo"]["subs"]
    info = opened(golden("broken/subs_bad_crc")).info()
    found = [{k: v for k, v in s.items() if k != "kind"} for s in info["channels"]["foo"]["subscriptions"]]
    assert found == [s for s in whole if s["id"] != 1]


def test_clients_behind_a_damaged_record_are_there(golden: Golden, truth: Truth, opened: Any) -> None:
    log = truth("basic_sigterm.truth")["clients_log"]
    first = log[0]["id"]
    expected = sorted(c["id"] for c in truth("basic_sigterm.truth")["clients"] if c["id"] != first)
    for name in ("clients_bad_crc", "clients_bad_type"):
        assert [c["id"] for c in opened(golden(f"broken/{name}")).info()["clients"]] == expected
