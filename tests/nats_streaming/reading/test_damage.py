"""Damage and oddities that a server leaves or passes over, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everlog.core.report import Severity


def places(report: Any) -> list[tuple[str, str, int | None]]:
    return [(f.code, f.file, f.offset) for f in report.faults]


def indexed(made: Any, *records: tuple[int, bytes]) -> tuple[bytes, bytes]:
    """A slice of the given sequences and data, all of them in the index."""
    dat, idx = made.version, made.version
    for sequence, data in records:
        message = made.message(sequence, data)
        idx += made.entry(sequence, len(dat), len(message))
        dat += made.record(message)
    return dat, idx


def test_a_record_that_was_written_again_counts_once_with_and_without_the_index(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = indexed(made, (1, b"one"), (2, b"two"))
    orphan = made.record(made.message(3, b"lost its index entry"))
    again = made.message(3, b"three")
    at = len(dat)
    idx += made.entry(3, at + len(orphan), len(again))
    dat += orphan + made.record(again)
    with opened(made.store(tmp_path / "with", dat_1=dat, idx_1=idx)) as store:
        assert reading(store).payloads == [b"one", b"two", b"three"]
        report = store.verify()
        assert places(report) == [("superseded-record", "foo/msgs.1.dat", at)]
        assert report.ok
    with opened(made.store(tmp_path / "without", dat_1=dat)) as store:
        found = reading(store)
        assert found.payloads == [b"one", b"two", b"three"]
        assert found.faults == []
        (info,) = store.streams()
        assert (info.first, info.last, info.record_count) == ("1", "3", 3)
        assert places(store.verify()) == [
            ("index-missing", "foo/msgs.1.idx", None),
            ("superseded-record", "foo/msgs.1.dat", at + len(orphan)),
        ]


def test_an_index_rebuilt_over_records_written_twice_does_not_decide(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = indexed(made, (1, b"one"), (2, b"lost"), (3, b"lost too"), (2, b"two"), (3, b"three"), (4, b"four"))
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx)) as store:
        assert reading(store).payloads == [b"one", b"two", b"three", b"four"]
        assert [reading(store, start=k, end=k + 1).payloads for k in (2, 3)] == [[b"two"], [b"three"]]


def test_sequences_that_go_back_twice_keep_the_last_of_each(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    order = [1, 2, 3, 4, 3, 4, 5, 6, 5, 2, 3]
    dat, _ = indexed(made, *((s, b"%d at %d" % (s, i)) for i, s in enumerate(order)))
    with opened(made.store(tmp_path / "s", dat_1=dat)) as store:
        assert reading(store).payloads == [b"1 at 0", b"2 at 9", b"3 at 10"]


def test_zeros_between_records_are_crossed_with_and_without_the_index(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = indexed(made, (1, b"one"), (2, b"two"))
    hole = len(dat)
    third = made.message(3, b"three")
    for size in (8, 64, 5000, 3 << 20):
        full = dat + bytes(size) + made.record(third)
        index = idx + made.entry(3, hole + size, len(third))
        with opened(made.store(tmp_path / f"with{size}", dat_1=full, idx_1=index)) as store:
            found = reading(store)
            assert (found.sequences, found.faults) == ([1, 2, 3], [])
            assert reading(store, start=3).payloads == [b"three"]
            assert places(store.verify()) == [("zero-hole", "foo/msgs.1.dat", hole)]
        with opened(made.store(tmp_path / f"without{size}", dat_1=full)) as store:
            found = reading(store)
            assert found.sequences == [1, 2, 3]
            assert found.codes == [("zero-hole", "foo/msgs.1.dat", hole)]


def test_records_behind_a_cut_index_are_not_part_of_the_channel(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = made.slice(range(1, 6))
    end = len(made.slice(range(1, 4))[0])
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx[: 4 + 3 * 32])) as store:
        assert reading(store).sequences == [1, 2, 3]
        (fault,) = store.verify().faults
        assert (fault.code, fault.offset, fault.address) == ("orphan-record", end, "4")
        assert fault.found == "2 records, sequences 4 to 5"


def test_an_unfinished_record_behind_the_index_is_a_note(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    dat, idx = made.slice(range(1, 4))
    torn = made.record(made.message(4, b"never finished"))[:-3]
    with opened(made.store(tmp_path / "s", dat_1=dat + torn, idx_1=idx)) as store:
        assert (reading(store).sequences, reading(store).faults) == ([1, 2, 3], [])
        (note,) = store.verify().faults
        assert (note.code, note.offset, note.severity) == ("torn-tail", len(dat), Severity.NOTE)


def test_behind_a_damaged_length_the_index_says_where_to_go_on(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = made.slice(range(1, 30))
    at = len(made.slice(range(1, 10))[0])
    for value in (0, 1, 200, 60_000_000, 0x7FFFFFFF, 0xFFFFFFFF):
        bad = dat[:at] + value.to_bytes(4, "little") + dat[at + 4 :]
        for name, files in (("with", {"idx_1": idx}), ("without", {})):
            with opened(made.store(tmp_path / f"{name}{value}", dat_1=bad, **files)) as store:
                found = reading(store)
                assert found.sequences == [k for k in range(1, 30) if k != 10]
                assert [(f.file, f.offset, f.address) for f in found.faults] == [("foo/msgs.1.dat", at, "10")]


def test_several_damaged_records_are_reported_one_by_one(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    dat, idx = made.slice(range(1, 30))
    spoilt = bytearray(dat)
    starts = [len(made.slice(range(1, k))[0]) for k in (5, 6, 7, 29)]
    for at in starts:
        spoilt[at + 20] ^= 0x40
    for name, files in (("with", {"idx_1": idx}), ("without", {})):
        with opened(made.store(tmp_path / name, dat_1=bytes(spoilt), **files)) as store:
            found = reading(store)
            assert found.sequences == [k for k in range(1, 30) if k not in (5, 6, 7, 29)]
            assert found.codes == [("bad-crc", "foo/msgs.1.dat", at) for at in starts]
            assert [f.address for f in found.faults] == ["5", "6", "7", "29"]


def test_a_record_inside_a_damaged_message_is_not_taken_for_one(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    """Somebody publishes a copy of the store: its records are data, even behind damage."""
    inner = made.record(made.message(700, b"bogus"))
    dat, idx = indexed(made, (1, b"one"), (2, inner * 3), (3, b"three"))
    at = len(indexed(made, (1, b"one"))[0])
    for value in (5, 0xFFFFFF00):
        bad = dat[:at] + value.to_bytes(4, "little") + dat[at + 4 :]
        for name, files in (("with", {"idx_1": idx}), ("without", {})):
            with opened(made.store(tmp_path / f"{name}{value}", dat_1=bad, **files)) as store:
                assert reading(store).payloads == [b"one", b"three"]


def test_an_index_that_disagrees_in_the_middle_is_reported(
    made: Any, tmp_path: Path, opened: Any, reading: Any
) -> None:
    dat, idx = made.slice(range(1, 6))
    offset = len(made.slice(range(1, 3))[0])
    size = len(made.message(3, b"message 3", time=10**18 + 3 * 10**9))
    wrong = idx[: 4 + 64] + made.entry(3, offset, size, 12345) + idx[4 + 96 :]
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=wrong)) as store:
        assert reading(store).sequences == [1, 2, 3, 4, 5]
        (fault,) = store.verify().faults
        assert (fault.code, fault.file, fault.offset, fault.address) == ("index-mismatch", "foo/msgs.1.idx", 68, "3")
        assert fault.found == "timestamp 12345"


@pytest.mark.parametrize("damage", ["crc", "partial", "order", "version", "short", "empty"])
def test_a_bad_index_is_not_needed(damage: str, made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    dat, idx = made.slice(range(1, 6))
    bad = {
        "crc": idx[:40] + bytes([idx[40] ^ 1]) + idx[41:],
        "partial": idx[:-1],
        "order": idx[:4] + idx[36:68] + idx[4:36] + idx[68:],
        "version": b"\x02" + idx[1:],
        "short": idx[:3],
        "empty": b"",
    }[damage]
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=bad)) as store:
        assert reading(store).sequences == [1, 2, 3, 4, 5]
        (fault,) = store.verify().faults
        code = {"version": "file-version", "short": "short-version-word", "empty": "short-version-word"}
        assert fault.code == code.get(damage, "index-damaged")
        assert fault.severity is (Severity.FAULT if damage in code else Severity.NOTE)


def test_zero_padding_ends_an_index(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    dat, idx = made.slice(range(1, 6))
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx + bytes(96))) as store:
        assert reading(store).sequences == [1, 2, 3, 4, 5]
        assert store.verify().ok


def test_gaps_overlaps_and_slices_out_of_order(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    one, five = made.slice(range(1, 5)), made.slice(range(5, 9))
    nine = made.slice(range(9, 12))
    files = {"dat_1": one[0], "idx_1": one[1], "dat_3": nine[0], "idx_3": nine[1]}
    with opened(made.store(tmp_path / "gap", **files)) as store:
        assert reading(store).sequences == [1, 2, 3, 4, 9, 10, 11]
        (fault,) = store.verify().faults
        assert (fault.code, fault.file, fault.address) == ("sequence-gap", "foo/msgs.3.dat", "5")
        assert fault.loses == "4 messages, 5 to 8"
    # The missing slice was copied back under a number at the end.
    files |= {"dat_12": five[0], "idx_12": five[1]}
    with opened(made.store(tmp_path / "back", **files)) as store:
        assert reading(store).sequences == list(range(1, 12))
        assert store.verify().ok
    other = indexed(made, (4, b"newer 4"), (5, b"newer 5"))
    with opened(made.store(tmp_path / "over", **files, dat_13=other[0], idx_13=other[1])) as store:
        found = reading(store)
        assert found.sequences == list(range(1, 12))
        assert found.payloads[3:5] == [b"newer 4", b"newer 5"]
        assert {f.code for f in store.verify().faults} == {"slice-overlap"}


def test_a_gap_within_a_slice_is_reported(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    dat, idx = indexed(made, (1, b"a"), (2, b"b"), (6, b"c"))
    with opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx)) as store:
        assert reading(store).sequences == [1, 2, 6]
        (fault,) = store.verify().faults
        assert (fault.code, fault.offset, fault.address) == ("sequence-gap", dat.index(b"\x08\x06\x12") - 8, "3")


def test_notes_on_what_does_not_belong(made: Any, tmp_path: Path, opened: Any) -> None:
    dat, idx = made.slice(range(1, 3), channel=b"bar")
    root = made.store(tmp_path / "s", dat_1=dat, idx_1=idx)
    (root / "subs1234").write_bytes(b"x")
    (root / ".truncate.lck").write_bytes(b"")
    (root / ".rootdir.lck").write_bytes(b"")
    (root / "README").write_bytes(b"x")
    (root / "a..b").mkdir()
    (root / "a..b" / "subs.dat").write_bytes(made.version)
    (root / "foo" / "notes.txt").write_bytes(b"x")
    (root / "foo" / "msgs.x.dat").write_bytes(b"x")
    (root / "outside").symlink_to("/etc")
    found = sorted((f.code, f.file, f.severity.value) for f in opened(root).verify().faults)
    assert found == [
        ("bad-channel-name", "a..b", "note"),
        ("bad-slice-name", "foo/msgs.x.dat", "fault"),
        ("compaction-leftover", "subs1234", "note"),
        ("foreign-subject", "foo/msgs.1.dat", "note"),
        ("stray-file", "README", "note"),
        ("stray-file", "foo/notes.txt", "note"),
        ("stray-file", "outside", "note"),
        ("truncate-witness", ".truncate.lck", "note"),
    ]


def test_damage_in_a_log_costs_only_the_damaged_record(made: Any, tmp_path: Path, opened: Any) -> None:
    adds = [made.record(made.text(1, b"client-%d" % k) + made.text(2, b"inbox"), 1) for k in range(6)]
    log = made.version + b"".join(adds)
    at = 4 + len(adds[0]) * 2
    for value in (0xFFFFFF, 3, 0):
        bad = log[:at] + value.to_bytes(3, "little") + log[at + 3 :]
        with opened(made.store(tmp_path / f"s{value}", clients=bad)) as store:
            assert [c["id"] for c in store.info()["clients"]] == [f"client-{k}" for k in range(6) if k != 2]
            assert [(f.file, f.offset) for f in store.verify().faults] == [("clients.dat", at)]
    with opened(made.store(tmp_path / "torn", clients=log[:-2])) as store:
        assert len(store.info()["clients"]) == 5
        assert places(store.verify()) == [("torn-record", "clients.dat", len(log) - len(adds[5]))]


def test_a_server_record_with_bytes_behind_it_is_a_fault(made: Any, tmp_path: Path, opened: Any) -> None:
    server = made.server()
    with opened(made.store(tmp_path / "s", server=server + b"x")) as store:
        assert store.info()["server_info"]["cluster_id"] == "made"
        assert places(store.verify()) == [("server-size", "server.dat", len(server))]


def test_a_store_without_channels_and_state_is_new(tmp_path: Path, opened: Any, made: Any) -> None:
    root = tmp_path / "new"
    root.mkdir()
    (root / "server.dat").write_bytes(made.version)
    with opened(root) as store:
        assert store.streams() == []
        assert store.verify().exit_code == 1  # clients.dat is missing
        (root / "clients.dat").write_bytes(made.version)
        assert store.info()["server_info"] is None


def test_a_file_with_very_many_faults_does_not_flood_the_report(made: Any, tmp_path: Path, opened: Any) -> None:
    dat, idx = made.slice(range(1, 3001))
    spoilt = bytearray(dat)
    at = 4
    while at < len(spoilt):
        size = int.from_bytes(spoilt[at : at + 4], "little")
        spoilt[at + 8 + size - 1] ^= 0x10
        at += 8 + size
    spoilt[-1] ^= 0x10  # the last one stays whole: the index decides
    with opened(made.store(tmp_path / "s", dat_1=bytes(spoilt), idx_1=idx)) as store:
        report = store.verify()
        assert [f.code for f in report.faults] == ["bad-crc"] * 1000 + ["more-faults"]
        assert report.record_count == 1


def test_a_slice_that_is_deleted_before_it_is_read_is_a_fault_and_reading_goes_on(
    made: Any, tmp_path: Path, opened: Any
) -> None:
    slices = [made.slice(range(1 + 10 * k, 11 + 10 * k)) for k in range(3)]
    files = {
        f"{kind}_{k}": data for k, pair in enumerate(slices, 1) for kind, data in zip(("dat", "idx"), pair, strict=True)
    }
    store = opened(made.store(tmp_path / "s", **files))
    faults: list[Any] = []
    batches = store.scan("foo", columns=["sequence"], max_rows=1, on_fault=faults.append)
    found = next(batches).to_list("sequence")
    for kind in ("dat", "idx"):
        (tmp_path / "s" / "foo" / f"msgs.2.{kind}").unlink()
    for batch in batches:
        found += batch.to_list("sequence")
    assert found == [*range(1, 11), *range(21, 31)]
    assert [(f.code, f.file, f.address) for f in faults] == [("slice-gone-while-read", "foo/msgs.2.dat", "11")]


@pytest.mark.parametrize("files_left", [("idx",), ()])
def test_a_slice_that_a_server_deletes_while_its_channel_is_looked_at_is_no_fault(
    files_left: tuple[str, ...], made: Any, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [made.slice(range(1, 11)), made.slice(range(11, 21))]
    files = {
        f"{kind}_{k}": data for k, pair in enumerate(pairs, 1) for kind, data in zip(("dat", "idx"), pair, strict=True)
    }
    path = made.store(tmp_path / "s", **files)
    folder = path / "foo"

    def remove(*kinds: str) -> None:
        for kind in kinds:
            (folder / f"msgs.1.{kind}").unlink(missing_ok=True)

    store = opened(path)
    if files_left:
        remove("dat")
        monkeypatch.setattr("everlog.nats_streaming.reading.slices.time.sleep", lambda _seconds: remove("idx"))
        channel = store.channel("foo")
    else:
        channel = store.channel("foo")
        remove("dat", "idx")
    assert (channel.kept.first, channel.kept.count) == (11, 10)
    assert [state.faults for state in channel.states] == [()]
    assert store.verify().faults == []


def test_a_slice_that_a_server_makes_while_its_channel_is_listed_is_no_fault(
    made: Any, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dat, idx = made.slice(range(1, 11))
    path = made.store(tmp_path / "s", dat_1=dat, idx_1=idx, dat_2=b"", idx_2=made.version)
    monkeypatch.setattr(
        "everlog.nats_streaming.reading.slices.time.sleep",
        lambda _seconds: (path / "foo" / "msgs.2.dat").write_bytes(made.version),
    )
    channel = opened(path).channel("foo")
    assert (channel.kept.first, channel.kept.count) == (1, 10)
    assert [state.faults for state in channel.states] == [(), ()]


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        ({"max_msgs": 5}, 6, 5),
        ({"max_msgs": 9}, 2, 9),
        ({"max_bytes": 5 * 73}, 6, 5),
        ({"max_age": 4.5, "now_ns": 10**18 + 10 * 10**9}, 6, 5),
    ],
)
def test_limits_count_a_damaged_message_as_the_server_does(
    made: Any, tmp_path: Path, opened: Any, reading: Any, options: dict[str, Any], first: int, count: int
) -> None:
    """It goes by its index, and does not look at the records."""
    dat, idx = made.slice(range(1, 11))
    for k in (2, 3):
        dat = dat.replace(b"message %d" % k, b"massage %d" % k)
    with opened(made.store(tmp_path, dat_1=dat, idx_1=idx), **options) as store:
        (info,) = store.streams()
        assert (info.first, info.record_count) == (str(first), count)
        assert reading(store).sequences == [k for k in range(first, 11) if k not in (2, 3)]
