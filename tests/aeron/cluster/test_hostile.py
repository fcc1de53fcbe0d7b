"""Cuts at every byte, flipped bits, hostile lengths: no crash, no hang, nothing that was not written; and both decoders
agree."""

from __future__ import annotations

import importlib
import json
import random
import shutil
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

import everlog
from everlog.aeron.cluster.folder import scanning
from everlog.aeron.cluster.format import decode_twin, messages
from everlog.aeron.cluster.format.mark_file import read_cluster_mark
from everlog.aeron.cluster.format.messages import TYPES
from everlog.aeron.cluster.format.node_state_file import read_node_state
from everlog.aeron.cluster.format.recording_log import (
    SNAPSHOT,
    STANDBY_SNAPSHOT,
    TERM,
    Entry,
    encode_entry,
    read_recording_log,
)
from everlog.core.report import Fault
from everlog.errors import CorruptData, UnsupportedVersion
from everlog.testing.contract import Subject, check_store
from everlog.testing.series import Series
from tests.aeron.cluster.cluster_folder import Node, mark_of, node_state_of, raw_message

Unpack = Callable[[str], Path]
compiled = importlib.import_module("everlog.aeron.cluster.format._decode")


def entries() -> list[bytes]:
    """A term, a snapshot with its service, a standby snapshot of two blocks, an invalid snapshot, a term."""
    common = {"leadership_term_id": 2, "term_base_log_position": 64, "log_position": 4096, "timestamp": 5}
    return [
        encode_entry(recording_id=1, leadership_term_id=1, term_base_log_position=0, log_position=64),
        encode_entry(recording_id=1, leadership_term_id=2, term_base_log_position=64, log_position=-1),
        encode_entry(recording_id=4, service_id=0, type=SNAPSHOT, **common),
        encode_entry(recording_id=5, type=SNAPSHOT, **common),
        encode_entry(recording_id=6, type=STANDBY_SNAPSHOT, archive_endpoint="archive.example:19001", **common),
        encode_entry(recording_id=7, type=SNAPSHOT, is_valid=False, **common),
    ]


def by_recording(data: bytes) -> dict[int, Entry]:
    return {entry.recording_id: entry for entry in read_recording_log(data).entries if entry.type != TERM}


def test_an_entry_takes_as_many_blocks_as_its_endpoint_needs() -> None:
    assert [len(entry) for entry in entries()] == [64, 64, 64, 64, 128, 64]
    log = read_recording_log(b"".join(entries()))
    assert log.faults == []
    # As the node sorts them: terms, then standby snapshots, then snapshots with the consensus module's last.
    kinds = [(entry.type, entry.recording_id, entry.offset) for entry in log.entries]
    assert kinds == [(0, 1, 0), (0, 1, 64), (2, 6, 256), (1, 4, 128), (1, 5, 192), (1, 7, 384)]
    assert log.entries[2].archive_endpoint == "archive.example:19001"
    assert [entry.is_valid for entry in log.entries] == [True] * 5 + [False]
    assert log.latest_snapshot() == 4


def test_a_recording_log_cut_at_every_byte_gives_the_whole_entries_before() -> None:
    data = b"".join(entries())
    whole = read_recording_log(data).entries
    for cut in range(len(data)):
        log = read_recording_log(data[:cut])
        assert set(log.entries) <= set(whole)
        assert {e for e in whole if e.offset + 128 <= cut} <= set(log.entries)
        # An entry's fields are its first 48 bytes: with them it is read, and the missing padding is another fault.
        assert bool(log.faults) == (cut % 64 != 0 or cut == 320), cut


def test_flipped_bits_in_a_recording_log_change_one_entry_at_most() -> None:
    data = b"".join(entries())
    whole = set(read_recording_log(data).entries)
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            log = read_recording_log(bytes(damaged))
            lost = {entry for entry in whole if not any(entry.offset == e.offset for e in log.entries)}
            changed = {e for e in log.entries if not any(e[:8] == w[:8] and e.offset == w.offset for w in whole)}
            assert len(lost) <= 1
            assert len(changed) <= 2, (at, bit)
            assert not lost or log.faults or damaged[at - at % 64 + 44 :][:4] == b"\xff\xff\xff\xff"


def test_a_removed_entry_is_passed_over_whatever_is_left_of_it() -> None:
    parts = entries()
    for index, part in enumerate(parts):
        damaged = list(parts)
        damaged[index] = part[:44] + b"\xff\xff\xff\xff" + part[48:]
        log = read_recording_log(b"".join(damaged))
        assert log.faults == []
        assert len(log.entries) == len(parts) - 1, index


@pytest.mark.parametrize("length", [0, -1, 4045, 1 << 30, (1 << 31) - 1, -(1 << 31)])
def test_a_hostile_endpoint_length_costs_its_entry_only(length: int) -> None:
    parts = entries()
    parts[4] = parts[4][:48] + length.to_bytes(4, "little", signed=True) + parts[4][52:]
    found = by_recording(b"".join(parts))
    assert 6 not in found
    assert {4, 5, 7} <= found.keys()


def test_zeros_in_a_recording_log_are_no_term() -> None:
    log = read_recording_log(bytes(64) + entries()[0])
    assert [entry.leadership_term_id for entry in log.entries] == [1]
    assert [(fault.code, fault.found) for fault in log.faults] == [("recording-log-entry", "zeros")]


def test_a_long_hole_in_a_recording_log_is_one_fault() -> None:
    first, second = entries()[:2]
    log = read_recording_log(first + bytes(64 * 100_000) + second + bytes(64 * 3))
    assert [entry.offset for entry in log.entries] == [0, len(first) + 64 * 100_000]
    assert [entry.entry_index for entry in log.entries] == [0, 100_001]
    assert [fault.found for fault in log.faults] == ["zeros in place of 100000 entries", "zeros in place of 3 entries"]


def test_a_node_state_cut_or_flipped_anywhere_is_read_or_refused() -> None:
    data = node_state_of(9, 4096)[:64]
    good = read_node_state(data)
    assert (good.candidate_term_id, good.log_position) == (9, 4096)
    for cut in range(len(data)):
        with pytest.raises(CorruptData):
            read_node_state(data[:cut])
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            try:
                state = read_node_state(bytes(damaged))
            except (CorruptData, UnsupportedVersion):
                continue
            same = (state.candidate_term_id, state.timestamp, state.log_position) == (9, good.timestamp, 4096)
            assert same or 24 <= at < 48


def test_a_mark_file_cut_or_flipped_anywhere_never_raises_but_for_its_block() -> None:
    data = mark_of(1, -1)
    for cut in range(len(data)):
        try:
            mark = read_cluster_mark(data[:cut])
        except CorruptData:
            assert cut < 136
            continue
        assert mark.header.member_id == 3
    generator = random.Random(3)
    for _ in range(500):
        damaged = bytearray(data)
        damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        try:
            read_cluster_mark(bytes(damaged)).to_dict()
        except CorruptData:
            continue


# Messages


def column(items: list[bytes]) -> tuple[memoryview, memoryview, int]:
    ends = array("i", [0])
    for item in items:
        ends.append(ends[-1] + len(item))
    return memoryview(ends), memoryview(b"".join(items)), len(items)


def random_messages(count: int, seed: int) -> list[bytes]:
    """Of all types, with ordinary and extreme numbers, a part of them cut or flipped."""
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        item = generator.choice(TYPES)
        fields = {}
        for _, member in item.block.fields():
            bits = 8 * member.size - 1
            fields[member.name] = generator.choice([0, 1, 2, -1, -(1 << bits), (1 << bits) - 1, 1795268829062])
            fields[member.name] = max(-(1 << bits), min(fields[member.name], (1 << bits) - 1))
        texts = tuple(generator.randbytes(generator.randrange(20)) for _ in item.block.var_data)
        payload = generator.randbytes(generator.randrange(90)) if item.kind == "session-message" else b""
        data = bytearray(raw_message(item.kind, texts, payload, **fields))
        dice = generator.random()
        if dice < 0.2:
            del data[generator.randrange(len(data)) :]
        elif dice < 0.5:
            data[generator.randrange(min(len(data), 16))] ^= 1 << generator.randrange(8)
        found.append(bytes(data))
    return found


@pytest.mark.parametrize("names", [decode_twin.NAMES, ("kind",), ("payload", "length"), ("fields", "timestamp_ns")])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 3000])
def test_both_decoders_give_the_same_columns(names: tuple[str, ...], count: int) -> None:
    offsets, values, _ = column(random_messages(count, count))
    for unit_ns, state_row in ((1, count), (1_000_000, count // 2)):
        twin, fast = decode_twin.Decoder(frozenset(names), unit_ns), compiled.Decoder(names, unit_ns)
        expected, got = (d.decode(offsets, values, count, state_row) for d in (twin, fast))
        assert fast.undecodable == twin.undecodable
        assert expected.keys() == got.keys() == set(names)
        for name in names:
            assert [part if part is None or isinstance(part, int) else part.tolist() for part in got[name]] == [
                part if part is None or isinstance(part, int) else part.tolist() for part in expected[name]
            ], name


def decoded(message: bytes, decoder: type = compiled.Decoder, unit_ns: int = 1_000_000) -> dict[str, object]:
    offsets, values, count = column([message])
    made = decoder(frozenset(decode_twin.NAMES), unit_ns).decode(offsets, values, count, 1)
    found: dict[str, object] = {}
    for name, (data, ends, _, nulls) in made.items():
        text = bytes(data) if ends is not None else data[0]
        found[name] = None if nulls else text
    return found


@pytest.mark.parametrize("decoder", [compiled.Decoder, decode_twin.Decoder])
def test_a_message_of_an_older_writer_lacks_its_last_fields(decoder: type) -> None:
    # Version 3: a block of 40 bytes, without time unit and application's version.
    body = (
        bytes.fromhex("2800 1800 6f00 0300".replace(" ", "")) + (7).to_bytes(8, "little") + (96).to_bytes(8, "little")
    )
    body += (5).to_bytes(8, "little") + bytes(8) + (2).to_bytes(4, "little") + (9).to_bytes(4, "little")
    row = decoded(body, decoder)
    assert (row["kind"], row["leadership_term_id"], row["timestamp_ns"]) == (b"new-leadership-term", 7, 5_000_000)
    assert json.loads(row["fields"]) == {  # type: ignore[arg-type]
        "log_position": 96,
        "term_base_log_position": 0,
        "leader_member_id": 2,
        "log_session_id": 9,
        "time_unit": None,
        "app_version": None,
    }


@pytest.mark.parametrize("decoder", [compiled.Decoder, decode_twin.Decoder])
def test_a_longer_block_of_a_newer_writer_is_stepped_over(decoder: type) -> None:
    body = bytes.fromhex("2000 0100 6f00 1200".replace(" ", "")) + (7).to_bytes(8, "little") + (4).to_bytes(8, "little")
    row = decoded(body + (5).to_bytes(8, "little") + b"new field"[:8] + b"payload", decoder)
    assert (row["cluster_session_id"], row["payload"], row["length"], row["fields"]) == (4, b"payload", 7, None)


@pytest.mark.parametrize("decoder", [compiled.Decoder, decode_twin.Decoder])
def test_a_time_that_nanoseconds_can_not_hold_is_null(decoder: type) -> None:
    message = raw_message("timer", leadership_term_id=1, correlation_id=2, timestamp=1 << 62)
    assert decoded(message, decoder)["timestamp_ns"] is None
    assert decoded(message, decoder, 1)["timestamp_ns"] == 1 << 62


def test_a_message_cut_at_every_byte_is_undecodable_or_none_of_the_clusters() -> None:
    message = raw_message("session-open", (b"aeron:ipc", b"me"), cluster_session_id=3, timestamp=1)
    for cut in range(len(message)):
        assert decoded(message[:cut])["kind"] == b"undecodable"
    assert decoded(message)["kind"] == b"session-open"
    hostile = bytearray(message)
    hostile[44:48] = b"\xff\xff\xff\x7f"  # the channel's length
    assert decoded(bytes(hostile))["kind"] == b"undecodable"


# Folders


def test_a_small_node_keeps_the_contract(tmp_path: Path) -> None:
    node = Node.make()
    node.log.add(b"\x05")
    path = node.write(tmp_path)
    (tmp_path / "archive").rename(path / "archive")
    check_store(Subject(path))


def everything(path: Path) -> list[tuple[str, str, bytes]]:
    found = []
    with everlog.open_store(path, family="aeron-cluster") as store:
        json.dumps(store.info())
        store.verify()
        for info in store.streams():
            faults: list[Fault] = []
            found += [(info.name, r.address, r.payload) for r in store.read(info.name, on_fault=faults.append)]
    return found


@pytest.mark.parametrize("name", ["recording.log", "node-state.dat", "cluster-mark.dat"])
def test_a_folder_with_any_damaged_file_is_still_told_of(tmp_path: Path, name: str, series: Series) -> None:
    path = Node.make().write(tmp_path)
    written = set(everything(path))
    good = (path / name).read_bytes()
    generator = random.Random(4)
    damaged = [good[: generator.randrange(len(good))] for _ in range(20)] + [b"", bytes(len(good)), b"\xff" * len(good)]
    for _ in range(60):
        data = bytearray(good)
        data[generator.randrange(min(len(data), 256))] ^= 1 << generator.randrange(8)
        damaged.append(bytes(data))
    for data in series.points(damaged):
        (path / name).write_bytes(data)
        assert {row[1:] for row in everything(path)} <= {row[1:] for row in written}


def test_a_log_cut_or_flipped_anywhere_gives_only_what_was_written(tmp_path: Path, series: Series) -> None:
    path = Node.make().write(tmp_path)
    written = everything(path)
    segment = tmp_path / "archive" / "0-0.rec"
    good = segment.read_bytes()
    for cut in series.points([*range(600), *range(600, 2300, 37)]):
        segment.write_bytes(good[:cut])
        assert set(everything(path)) <= set(written)
    segment.write_bytes(good)
    for at in series.points(range(400)):
        data = bytearray(good)
        data[at] ^= 1 << at % 8
        segment.write_bytes(data)
        assert {row[:2] for row in everything(path)} <= {row[:2] for row in written}


def test_both_decoders_read_golden_nodes_alike(golden_archive: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden_archive("cluster-killed/new-leader") / "cluster"

    def rows() -> list[object]:
        with everlog.open_store(path) as store:
            return [
                row for info in store.streams() for batch in store.scan(info.name, max_rows=50) for row in batch.rows()
            ]

    expected = rows()
    monkeypatch.setattr(scanning, "Decoder", decode_twin.Decoder)
    assert rows() == expected


def test_a_link_that_leads_nowhere_is_no_mark_file(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    shutil.move(path / "cluster-mark.dat", tmp_path / "cluster-mark.dat")
    (path / "cluster-mark.lnk").write_text(str(tmp_path / "nowhere"))
    with everlog.open_store(path) as store:
        assert [fault.code for fault in store.verify().faults] == ["cluster-mark-missing"]
    (path / "cluster-mark.lnk").write_text(f"{tmp_path}\n")
    with everlog.open_store(path) as store:
        assert store.verify().faults == []
        assert store.info()["member_id"] == 3


def test_types_are_declared_once() -> None:
    assert len({item.template_id for item in TYPES}) == len({item.kind for item in TYPES}) == len(TYPES)
    assert len(messages.KINDS) == len(TYPES) + 4
