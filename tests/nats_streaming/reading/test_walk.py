"""The walkers, compiled and in plain Python: the same results on good and on hostile bytes."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.kernel import _columns, _crc32, columns_twin, crc32_twin
from everlog.kernel.sources import Bytes, FieldOf, Value
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, IndexRecord
from everlog.nats_streaming.reading import _walk as compiled
from everlog.nats_streaming.reading import walk_status as status
from everlog.nats_streaming.reading import walk_twin

COLUMNS = [
    *[(name, "q", Value(i)) for i, name in enumerate(("timestamp", "length", "sequence", "slice", "offset", "size"))],
    *[(name, "B", Bytes(i)) for i, name in enumerate(("data", "subject", "reply"))],
]
INDEX_COLUMNS = [(name, "q", FieldOf(getattr(IndexRecord, name))) for name in ("sequence", "offset", "timestamp")]


class Kit:
    """One of the two: walkers, sinks and checksums that belong together."""

    def __init__(self, walk: Any, columns: Any, crc: Any) -> None:
        self.walk, self.columns, self.crc = walk, columns, crc

    def records(self, columns: Any = COLUMNS, rows: int = 1000, size: int = 1 << 20, check: bool = True) -> Any:
        sink = self.columns.RowSink(columns, rows, size)
        return self.walk.RecordWalker(sink, self.crc.Crc32() if check else None, 7), sink

    def index(self, rows: int | None = 1000) -> Any:
        sink = None if rows is None else self.columns.RowSink(INDEX_COLUMNS, rows, 1 << 20)
        return self.walk.IndexWalker(sink, self.crc.Crc32()), sink


TWIN = Kit(walk_twin, columns_twin, crc32_twin)
KITS = [pytest.param(TWIN, id="twin"), pytest.param(Kit(compiled, _columns, _crc32), id="compiled")]
both = pytest.mark.parametrize("kit", KITS)


def rows_of(sink: Any) -> list[tuple[Any, ...]]:
    count, taken = sink.take()
    columns = []
    for values, offsets, _, _ in taken.values():
        if offsets is None:
            columns.append(values[:count].tolist())
        else:
            ends = offsets[: count + 1].tolist()
            columns.append([bytes(values[a:b]) for a, b in itertools.pairwise(ends)])
    return list(zip(*columns, strict=True))


@both
def test_a_message_becomes_a_row(kit: Kit, made: Any) -> None:
    data = made.record(made.message(9, b"hello", b"foo", 123, b"answers"))
    walker, sink = kit.records()
    assert walker.walk(data, 0, len(data), 1000) == status.MORE
    size = len(data) - 8
    assert rows_of(sink) == [(123, 5, 9, 7, 1000, size, b"hello", b"foo", b"answers")]
    assert (walker.at, walker.needed, walker.count, walker.byte_count) == (len(data), 8, 1, size + 40)
    assert (walker.first_found, walker.last_sequence, walker.first_timestamp) == (9, 9, 123)


@both
def test_absent_fields_are_empty_and_unknown_ones_are_skipped(kit: Kit, made: Any) -> None:
    payload = made.text(99, b"new") + made.number(1, 3) + made.number(7, 5) + b"\x59" + bytes(8) + b"\x65" + bytes(4)
    data = made.record(payload)
    walker, sink = kit.records()
    walker.walk(data, 0, len(data), 0)
    assert rows_of(sink) == [(0, 0, 3, 7, 0, len(payload), b"", b"", b"")]


@both
def test_of_repeated_fields_the_last_counts_in_any_order(kit: Kit, made: Any) -> None:
    payload = made.number(5, 8) + made.text(4, b"no") + made.text(4, b"yes") + made.number(1, 1) + made.number(1, 2)
    walker, sink = kit.records()
    data = made.record(payload)
    walker.walk(data, 0, len(data), 0)
    assert rows_of(sink)[0][:3] == (8, 3, 2)


@both
def test_times_before_1970_are_negative(kit: Kit, made: Any) -> None:
    data = made.record(made.number(1, 1) + made.number(5, (1 << 64) - 5))
    walker, sink = kit.records()
    walker.walk(data, 0, len(data), 0)
    assert rows_of(sink)[0][0] == -5


@both
@pytest.mark.parametrize(
    "payload",
    [
        b"\x12\x03foo",  # no sequence
        b"\x08\x00",  # sequence 0
        b"\x08" + b"\xff" * 9 + b"\x01",  # above 2^63
        b"\x08\x01\x22\x05abc",  # longer than the payload
        b"\x08\x01\x22" + b"\xff" * 9 + b"\x01",  # 2^64 - 1 bytes
        b"\x08" + b"\x80" * 10 + b"\x01",  # a number of 11 bytes
        b"\x08\x01\x80",  # an unfinished tag
        b"\x08\x01\x00\x00",  # field 0
        b"\x08\x01\x0b",  # a group
        b"\x08\x01\x0e",  # wire type 6
        b"\x0a\x01\x01",  # the sequence as text
        b"\x08\x01\x20\x05",  # the data as a number
        b"\x08\x01\x29" + bytes(8),  # the time as fixed64
        b"\x08\x01\x59" + bytes(7),  # a fixed64 that is cut off
        b"\x08\x01\x80\x80\x80\x80\x80\x01\x01",  # a field number above 2^29
    ],
)
def test_what_is_no_message_is_refused(kit: Kit, payload: bytes, made: Any) -> None:
    data = made.record(made.message(1)) + made.record(payload)
    walker, sink = kit.records()
    assert walker.walk(data, 0, len(data), 0) == status.BAD_MESSAGE
    assert walker.at == len(data) - 8 - len(payload)
    assert len(rows_of(sink)) == 1


@both
def test_every_reason_to_stop(kit: Kit, made: Any) -> None:
    good = made.record(made.message(5, b"x"))
    for tail, reason in (
        (b"", status.MORE),
        (b"\x01\x00\x00", status.MORE),
        (made.record(made.message(6))[:-1], status.MORE),
        (bytes(8), status.ZEROS),
        (bytes(4) + b"\x01" + bytes(3), status.BAD_CRC),
        (made.record(made.message(6))[:-1] + b"\x7f", status.BAD_CRC),
        (struct.pack("<II", MAX_RECORD_BYTES + 1, 1), status.TOO_LARGE),
        (struct.pack("<II", MAX_RECORD_BYTES, 1), status.MORE),
        (made.record(made.message(5)), status.OUT_OF_ORDER),
        (made.record(made.message(4)), status.OUT_OF_ORDER),
    ):
        walker, sink = kit.records()
        data = good + tail
        assert walker.walk(data, 0, len(data), 0) == reason, tail
        assert (walker.at, walker.last_sequence, len(rows_of(sink))) == (len(good), 5, 1)


@both
def test_a_record_that_is_not_whole_says_how_much_it_needs(kit: Kit, made: Any) -> None:
    data = made.record(made.message(1, b"x" * 100))
    for end in range(len(data)):
        walker, _ = kit.records()
        assert walker.walk(data, 0, end, 0) == status.MORE
        assert walker.needed == (8 if end < 8 else len(data))


@both
def test_bounds_leave_records_out_but_check_them(kit: Kit, made: Any) -> None:
    data = b"".join(made.record(made.message(k, b"%d" % k)) for k in range(1, 10))
    walker, sink = kit.records()
    walker.first_sequence, walker.below_sequence = 3, 6
    assert walker.walk(data, 0, len(data), 0) == status.MORE
    assert [row[2] for row in rows_of(sink)] == [3, 4, 5]
    assert (walker.count, walker.found_sequence) == (3, 9)
    spoilt = bytearray(data)
    spoilt[12] ^= 1
    assert walker.walk(bytes(spoilt), 0, len(data), 0) == status.BAD_CRC


@both
def test_a_full_sink_stops_and_goes_on_after_it_was_emptied(kit: Kit, made: Any) -> None:
    data = b"".join(made.record(made.message(k, b"x" * 50)) for k in range(1, 601))
    for rows, size in ((1, 1 << 20), (7, 1 << 20), (300, 1 << 20), (1000, 500), (1000, 1)):
        walker, sink = kit.records(rows=rows, size=size)
        found: list[int] = []
        at = 0
        while (reason := walker.walk(data, at, len(data), 0)) == status.FULL:
            found += [row[2] for row in rows_of(sink)]
            at = walker.at
        found += [row[2] for row in rows_of(sink)]
        assert reason == status.MORE
        assert found == list(range(1, 601))


@both
def test_a_walk_outside_of_the_buffer_is_refused(kit: Kit) -> None:
    walker, _ = kit.records()
    for start, end in ((-1, 3), (0, 5), (3, 2)):
        with pytest.raises(ValueError, match="outside"):
            walker.walk(bytes(4), start, end, 0)
    assert walker.walk(b"", 0, 0, 0) == status.MORE


@both
def test_index_entries_are_folded_and_given(kit: Kit, made: Any) -> None:
    data = made.entry(1, 4, 10, 50) + made.entry(2, 22, 20, 40)
    walker, sink = kit.index()
    assert walker.walk(data, 0, len(data)) == status.MORE
    assert rows_of(sink) == [(1, 4, 50), (2, 22, 40)]
    assert (walker.count, walker.byte_count, walker.first_sequence, walker.last_sequence) == (2, 30 + 80, 1, 2)
    assert (walker.first_timestamp, walker.max_timestamp, walker.last_offset, walker.last_size) == (50, 50, 22, 20)
    assert walker.next_offset == 22 + 8 + 20


@both
def test_every_reason_to_stop_in_an_index(kit: Kit, made: Any) -> None:
    good = made.entry(3, 4, 10)
    for tail, reason in (
        (b"\x01" * 31, status.MORE),
        (bytes(32), status.ZEROS),
        (made.entry(4, 22, 5)[:-1] + b"\x00", status.BAD_CRC),
        (made.entry(3, 22, 5), status.OUT_OF_ORDER),
        (made.entry(4, 21, 5), status.OUT_OF_ORDER),
        (made.entry(4, -5, 5), status.OUT_OF_ORDER),
        (made.entry(4, (1 << 62) + 1, 5), status.OUT_OF_ORDER),
        (made.entry(1 << 63, 22, 5), status.OUT_OF_ORDER),
        (made.entry(4, 22, 0), status.TOO_LARGE),
        (made.entry(4, 22, MAX_RECORD_BYTES + 1), status.TOO_LARGE),
        (made.entry(4, 30, 5), status.BREAK),
    ):
        walker, _ = kit.index(None)
        data = good + tail
        assert walker.walk(data, 0, len(data)) == reason, tail
        assert (walker.at, walker.count) == (32, 1)


def outcome(kit: Kit, data: bytes, rows: int, size: int, check: bool) -> tuple[Any, ...]:
    walker, sink = kit.records(rows=rows, size=size, check=check)
    reason = walker.walk(data, 4, len(data), 0)
    numbers = (walker.at, walker.needed, walker.count, walker.byte_count, walker.last_sequence, walker.found_sequence)
    return (reason, *numbers, walker.first_found, walker.max_timestamp, rows_of(sink))


def index_outcome(kit: Kit, data: bytes) -> tuple[Any, ...]:
    walker, sink = kit.index(8)
    reason = walker.walk(data, min(4, len(data)), len(data))
    numbers = (walker.at, walker.count, walker.byte_count, walker.next_offset, walker.last_sequence, walker.last_size)
    return (reason, *numbers, rows_of(sink))


def test_both_agree_on_real_files_cut_at_every_byte(golden: Callable[[str], Path]) -> None:
    kit = Kit(compiled, _columns, _crc32)
    root = golden("basic_sigterm")
    dat, idx = (root / "foo" / "msgs.2.dat").read_bytes(), (root / "foo" / "msgs.2.idx").read_bytes()
    for end in range(4, len(dat)):
        assert outcome(kit, dat[:end], 1000, 1 << 20, True) == outcome(TWIN, dat[:end], 1000, 1 << 20, True)
    for end in range(len(idx)):
        assert index_outcome(kit, idx[:end]) == index_outcome(TWIN, idx[:end])


@pytest.mark.parametrize("check", [True, False])
def test_both_agree_on_damaged_bytes(check: bool, golden: Callable[[str], Path]) -> None:
    kit = Kit(compiled, _columns, _crc32)
    root = golden("basic_sigterm")
    dat, idx = (root / "foo" / "msgs.2.dat").read_bytes(), (root / "foo" / "msgs.2.idx").read_bytes()
    rng = random.Random(20260 + check)
    for _ in range(1500):
        bad = bytearray(dat)
        for _ in range(rng.choice((1, 1, 3))):
            bad[rng.randrange(4, len(bad))] ^= 1 << rng.randrange(8)
        rows, size = rng.choice((1, 5, 1000)), rng.choice((100, 1 << 20))
        assert outcome(kit, bytes(bad), rows, size, check) == outcome(TWIN, bytes(bad), rows, size, check)
        entry = bytearray(idx)
        entry[rng.randrange(4, len(entry))] ^= 1 << rng.randrange(8)
        assert index_outcome(kit, bytes(entry)) == index_outcome(TWIN, bytes(entry))


def test_both_agree_on_random_protobuf(made: Any) -> None:
    kit = Kit(compiled, _columns, _crc32)
    rng = random.Random(7)
    for _ in range(4000):
        payload = b"\x08\x05" + bytes(
            rng.choice((8, 18, 26, 34, 40, 1, 2, 128, 255, 0, 9, 13)) for _ in range(rng.randrange(24))
        )
        data = bytes(4) + struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
        assert outcome(kit, data, 10, 1000, True) == outcome(TWIN, data, 10, 1000, True)
