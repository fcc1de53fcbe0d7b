"""The frame walker and its twin, on frames laid by hand: chains, fragments, damage, hostile bytes."""

from __future__ import annotations

import random
import struct
import zlib
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from everlog.aeron.frames import _walk, walk_twin
from everlog.aeron.frames.columns import _SOURCES, COLUMNS
from everlog.kernel import _columns, _crc32, columns_twin, crc32_twin

TERM = 64 << 10
INITIAL_TERM, STREAM, SESSION, MTU = 7, 1001, 99, 256
Pair = tuple[ModuleType, ModuleType, ModuleType]


PAIRS = [
    pytest.param((walk_twin, columns_twin, crc32_twin), id="twin"),
    pytest.param((_walk, _columns, _crc32), id="compiled"),
]


def frame(
    position: int, payload: bytes, flags: int = 0xC0, kind: int = 1, length: int | None = None, **other: int
) -> bytes:
    offset, term = position % TERM, INITIAL_TERM + position // TERM
    header = struct.pack(
        "<iBBHiiiiq",
        len(payload) + 32 if length is None else length,
        0,
        flags,
        kind,
        other.get("term_offset", offset),
        other.get("session_id", SESSION),
        other.get("stream_id", STREAM),
        other.get("term_id", term),
        other.get("reserved_value", position),
    )
    return (header + payload).ljust((len(payload) + 63) // 32 * 32, b"\0")


def chain(*parts: tuple[bytes, int], start: int = 0) -> bytes:
    """Frames one behind the other: payload and flags."""
    data = b""
    for payload, flags in parts:
        data += frame(start + len(data), payload, flags)
    return data


def walk(
    pair: Pair,
    data: bytes,
    *,
    base: int = 0,
    assemble: bool = True,
    crc: bool = False,
    limit: int | None = None,
    final: bool = True,
    max_rows: int = 1000,
    first: int = 0,
    skipping: bool = False,
) -> tuple[list[tuple[int, int]], list[tuple[Any, ...]]]:
    """Statuses with the offsets at which they came, and rows; damage is stepped over with ``find``."""
    module, columns, crcs = pair
    geometry = walk_twin.Geometry(INITIAL_TERM, TERM, STREAM, MTU, base + len(data) if limit is None else limit)
    walker = module.Walker(geometry, assemble, crcs.Crc32() if crc else None)
    walker.select(first, 1 << 62, skipping)
    sink = columns.RowSink([(c.name, c.type.code, _SOURCES[c.name]) for c in COLUMNS], max_rows, 1 << 20)
    statuses, found, at = [], [], 0
    for _ in range(10_000):
        status = walker.walk(data, at, len(data), base, final, sink)
        count, taken = sink.take()
        rows = []
        for column in COLUMNS:
            values, offsets, validity, _ = taken[column.name]
            if offsets is not None:
                rows.append([bytes(values[a:b]) for a, b in pairwise(offsets[: count + 1])])
            else:
                rows.append([None] * count if validity is not None else values[:count].tolist())
        found += list(zip(*rows, strict=True))
        at = walker.at
        if status == walk_twin.FULL:
            continue
        statuses.append((status, at))
        if status in (walk_twin.INCOMPLETE, walk_twin.ORPHAN, walk_twin.TOO_LONG, walk_twin.PADDING_DATA):
            at = walker.resume
        elif status >= walk_twin.UNSET:
            at = walker.find(data, at + 32, len(data), base)
            walker.skipping = True
            if at < 0:
                return statuses, found
        else:
            return statuses, found
    raise AssertionError("the walk does not end")


def payloads(rows: list[tuple[Any, ...]]) -> list[bytes]:
    return [row[2] for row in rows]


@pytest.mark.parametrize("pair", PAIRS)
def test_whole_messages_come_out_with_their_header_fields(pair: Pair) -> None:
    data = chain((b"a", 0xC0), (b"", 0xC0), (b"b" * 33, 0xC0))
    statuses, rows = walk(pair, data)
    assert statuses == [(walk_twin.END, len(data))]
    assert [row[1:] for row in rows] == [
        (1, b"a", 0, 64, SESSION, STREAM, INITIAL_TERM, 0, 0xC0, 0),
        (0, b"", 64, 96, SESSION, STREAM, INITIAL_TERM, 64, 0xC0, 64),
        (33, b"b" * 33, 96, 192, SESSION, STREAM, INITIAL_TERM, 96, 0xC0, 96),
    ]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("length", [100, 128, 129, 191, 223])
def test_of_many_messages_of_one_length_each_has_its_own_header_fields_and_bytes(pair: Pair, length: int) -> None:
    bodies, data = [], b""
    for number in range(200):  # more than a sink moves at a time
        bodies.append(bytes((number + i) % 251 for i in range(length)))
        data += frame(len(data), bodies[-1], session_id=SESSION + number, reserved_value=-number)
    names = [column.name for column in COLUMNS]
    _, rows = walk(pair, data)
    assert payloads(rows) == bodies
    assert [row[names.index("session_id")] for row in rows] == [SESSION + number for number in range(200)]
    assert [row[names.index("reserved_value")] for row in rows] == [-number for number in range(200)]
    aligned = (length + 63) // 32 * 32
    assert [row[names.index("term_offset")] for row in rows] == [number * aligned for number in range(200)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("length", [255, 512, 1000, 4095, 4096, 4097])
def test_spans_of_any_length_come_out_whole(pair: Pair, length: int) -> None:
    bodies = [bytes((i * 7 + number) % 251 for i in range(length + number % 2)) for number in range(12)]
    data = b""
    for body in bodies:
        data += frame(len(data), body)
    module, columns, _ = pair
    geometry = walk_twin.Geometry(INITIAL_TERM, TERM, STREAM, 0, len(data))
    sink = columns.RowSink([("payload", "B", _SOURCES["payload"])], 1000, 1 << 20)
    assert module.Walker(geometry, True, None).walk(data, 0, len(data), 0, True, sink) == walk_twin.END
    count, taken = sink.take()
    values, offsets, *_ = taken["payload"]
    assert [bytes(values[a:b]) for a, b in pairwise(offsets[: count + 1])] == bodies


@pytest.mark.parametrize("pair", PAIRS)
def test_fragments_become_one_message_with_the_first_header_and_the_flags_of_both_ends(pair: Pair) -> None:
    full = b"x" * (MTU - 32)
    data = chain((b"0", 0xC0), (full, 0x80), (full, 0x00), (b"end", 0x40), (b"1", 0xC0))
    _, rows = walk(pair, data)
    assert payloads(rows) == [b"0", full + full + b"end", b"1"]
    assert rows[1][3:5] == (64, 64 + 2 * MTU + 64)
    assert (rows[1][9], rows[1][10]) == (0xC0, 64)


@pytest.mark.parametrize("pair", PAIRS)
def test_frame_level_gives_fragments_and_leaves_padding_out(pair: Pair) -> None:
    data = chain((b"begin", 0x80), (b"end", 0x40)) + frame(128, bytes(32), kind=0) + frame(192, b"z")
    statuses, rows = walk(pair, data, assemble=False)
    assert payloads(rows) == [b"begin", b"end", b"z"]
    assert [row[9] for row in rows] == [0x80, 0x40, 0xC0]
    assert statuses == [(walk_twin.END, len(data))]


@pytest.mark.parametrize("pair", PAIRS)
def test_a_message_may_go_on_behind_the_padding_at_a_terms_end_but_not_behind_other_padding(pair: Pair) -> None:
    start = TERM - 128
    data = frame(start, b"begin", 0x80) + frame(start + 64, bytes(32), kind=0) + frame(TERM, b"end", 0x40)
    assert payloads(walk(pair, data, base=start)[1]) == [b"beginend"]
    lossy = frame(0, b"begin", 0x80) + frame(64, bytes(32), kind=0) + chain((b"end", 0x40), (b"next", 0xC0), start=128)
    statuses, rows = walk(pair, lossy)
    assert (statuses[0], payloads(rows)) == ((walk_twin.INCOMPLETE, 0), [b"next"])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("max_rows", [1, 2, 1000])
def test_a_full_sink_stops_before_the_record_that_does_not_fit(pair: Pair, max_rows: int) -> None:
    data = chain(*((bytes([i]) * i, 0xC0) for i in range(1, 40)))
    assert payloads(walk(pair, data, max_rows=max_rows)[1]) == [bytes([i]) * i for i in range(1, 40)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"term_offset": 32}, walk_twin.TERM_OFFSET),
        ({"term_id": 8}, walk_twin.TERM_ID),
        ({"stream_id": 1}, walk_twin.STREAM_ID),
        ({"kind": 2}, walk_twin.FRAME_TYPE),
        ({"length": -1}, walk_twin.FRAME_LENGTH),
        ({"length": 31}, walk_twin.FRAME_LENGTH),
        ({"length": 1 << 20}, walk_twin.FRAME_LENGTH),
        ({"length": 0}, walk_twin.UNSET),
    ],
)
def test_a_wrong_header_is_a_fault_and_the_frames_around_it_are_given(pair: Pair, wrong: Any, status: int) -> None:
    data = chain((b"a", 0xC0)) + frame(64, b"bad", **wrong) + chain((b"c", 0xC0), (b"d", 0xC0), start=128)
    statuses, rows = walk(pair, data)
    assert (statuses[0], payloads(rows)) == ((status, 64), [b"a", b"c", b"d"])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("bit", range(5, 16))
def test_a_flipped_bit_in_a_length_never_makes_a_shorter_or_longer_record(pair: Pair, bit: int) -> None:
    good = chain(*((bytes([i + 1]) * 68, 0xC0) for i in range(40)))
    data = bytearray(good)
    at = 5 * 128
    struct.pack_into("<i", data, at, 100 ^ 1 << bit)
    _, rows = walk(pair, bytes(data))
    whole = [bytes([i + 1]) * 68 for i in range(40)]
    assert payloads(rows) == whole[:5] + whole[6:]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("length", [64 + 8, 64 + 1, 64 + 30])
def test_bytes_behind_a_checksummed_payload_show_that_its_length_is_wrong(pair: Pair, length: int) -> None:
    body = b"p" * 63
    session_id = struct.unpack("<i", struct.pack("<I", zlib.crc32(body + b"\0")))[0]
    last = frame(96, b"q" * 32, session_id=struct.unpack("<i", struct.pack("<I", zlib.crc32(b"q" * 32)))[0])
    assert payloads(walk(pair, frame(0, body, session_id=session_id) + last, crc=True)[1]) == [body, b"q" * 32]
    statuses, rows = walk(pair, frame(0, body, session_id=session_id, length=length) + last, crc=True)
    assert (statuses[0], payloads(rows)) == ((walk_twin.FRAME_LENGTH, 0), [b"q" * 32])


@pytest.mark.parametrize("pair", PAIRS)
def test_fragments_without_a_beginning_are_told_once_or_passed_over_silently(pair: Pair) -> None:
    data = chain((b"m", 0x00), (b"n", 0x40), (b"whole", 0xC0))
    statuses, rows = walk(pair, data)
    assert ([s for s, _ in statuses], payloads(rows)) == ([walk_twin.ORPHAN, walk_twin.END], [b"whole"])
    assert [s for s, _ in walk(pair, data, skipping=True)[0]] == [walk_twin.END]


@pytest.mark.parametrize("pair", PAIRS)
def test_a_message_without_its_end_is_not_given(pair: Pair) -> None:
    data = chain((b"begin", 0x80), (b"whole", 0xC0))
    statuses, rows = walk(pair, data)
    assert (statuses[0], payloads(rows)) == ((walk_twin.INCOMPLETE, 0), [b"whole"])
    statuses, rows = walk(pair, chain((b"a", 0xC0), (b"begin", 0x80)))
    assert (statuses, payloads(rows)) == ([(walk_twin.NEED_MORE, 64)], [b"a"])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("flags", [0xC0, 0x80])
def test_a_message_that_another_session_leaves_without_its_end_costs_no_other(pair: Pair, flags: int) -> None:
    full = b"x" * (MTU - 32)
    behind = 2 * MTU
    other = frame(behind, b"y" * (MTU - 32), flags, session_id=SESSION + 1)
    rest = frame(behind + MTU, b"z", 0x40 if flags == 0x80 else 0xC0, session_id=SESSION + 1)
    _, rows = walk(pair, chain((full, 0x80), (full, 0x00)) + other + rest)
    messages = [b"y" * (MTU - 32) + b"z"] if flags == 0x80 else [b"y" * (MTU - 32), b"z"]
    assert payloads(rows) == messages


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("flags", [0xC0, 0x80])
def test_where_checksums_hide_the_sessions_a_beginning_behind_a_message_without_its_end_is_one(
    pair: Pair, flags: int
) -> None:
    def checked(position: int, body: bytes, flags: int) -> bytes:
        (signed,) = struct.unpack("<i", struct.pack("<I", zlib.crc32(body + bytes(-len(body) % 32))))
        return frame(position, body, flags, session_id=signed)

    full, last = b"x" * (MTU - 32), b"z" * 32
    data = checked(0, full, 0x80) + checked(MTU, full, 0x00) + checked(2 * MTU, full, flags)
    data += checked(3 * MTU, last, 0x40 if flags == 0x80 else 0xC0)
    _, rows = walk(pair, data, crc=True)
    assert payloads(rows) == ([full + last] if flags == 0x80 else [full, last])


@pytest.mark.parametrize("pair", PAIRS)
def test_a_last_fragment_damaged_into_a_whole_message_is_not_given(pair: Pair) -> None:
    full = b"x" * (MTU - 32)
    _, rows = walk(pair, chain((full, 0x80), (full, 0x00), (b"end", 0xC0), (b"next", 0xC0)))
    assert payloads(rows) == [b"next"]


@pytest.mark.parametrize("pair", PAIRS)
def test_a_last_frame_that_reaches_into_an_empty_page_is_torn(pair: Pair) -> None:
    start = 4096 - 96
    torn = frame(start, b"p" * 64 + bytes(100), length=196) + bytes(64)
    statuses, rows = walk(pair, torn, base=start, limit=-1)
    assert (statuses[0], rows) == ((walk_twin.TORN, 0), [])
    # The same bytes are a message where the recording's end is known.
    known = torn[:-64]
    assert len(walk(pair, known, base=start)[1]) == 1


@pytest.mark.parametrize("pair", PAIRS)
def test_a_wrong_checksum_is_a_fault(pair: Pair) -> None:
    body = b"payload".ljust(32, b"\0")
    checksum = crc32_twin.Crc32().checksum(body)
    signed = checksum - (1 << 32 if checksum >> 31 else 0)
    good = frame(0, b"payload", session_id=signed)
    bad = frame(64, b"paYload", session_id=signed)
    statuses, rows = walk(pair, good + bad + frame(128, b"payload", session_id=signed), crc=True)
    assert (statuses[0], payloads(rows)) == ((walk_twin.CHECKSUM, 64), [b"payload", b"payload"])


@pytest.mark.parametrize("pair", PAIRS)
def test_every_cut_gives_only_whole_records_before_it(pair: Pair) -> None:
    full = b"x" * (MTU - 32)
    data = chain((b"a", 0xC0), (full, 0x80), (b"end", 0x40), (b"b" * 40, 0xC0))
    expected = [b"a", full + b"end", b"b" * 40]
    for cut in range(len(data)):
        _, rows = walk(pair, data[:cut], limit=len(data))
        found = payloads(rows)
        assert found == expected[: len(found)]
        assert len(found) == sum(end <= cut for end in (64, 64 + MTU + 64, len(data)))


def test_both_walkers_agree_on_hostile_bytes() -> None:
    twin, compiled = (parameter.values[0] for parameter in PAIRS)
    generator = random.Random(11)
    full = b"x" * (MTU - 32)
    for case in range(400):
        parts = []
        for _ in range(generator.randrange(1, 30)):
            if generator.random() < 0.3:
                parts += [(full, 0x80), (full, 0x00), (generator.randbytes(generator.randrange(90)), 0x40)]
            else:
                parts.append((generator.randbytes(generator.randrange(200)), 0xC0))
        start = TERM * generator.randrange(3)
        data = bytearray(chain(*parts, start=start))
        for _ in range(generator.randrange(6)):
            at = generator.randrange(len(data))
            if generator.random() < 0.7:
                data[at] ^= 1 << generator.randrange(8)
            else:
                data[at : at + 64] = generator.choice([bytes(64), generator.randbytes(64)])[: len(data) - at]
        options: dict[str, Any] = {
            "base": start,
            "assemble": case % 3 != 0,
            "crc": case % 5 == 0,
            "limit": generator.choice([None, -1]),
            "final": generator.random() < 0.8,
            "max_rows": generator.choice([1, 3, 1000]),
            "first": start + generator.choice([0, 0, 100]),
            "skipping": generator.random() < 0.2,
        }
        assert walk(twin, bytes(data), **options) == walk(compiled, bytes(data), **options), case


@pytest.mark.parametrize("pair", PAIRS)
def test_walking_goes_on_behind_padding_with_bytes_in_it(pair: Pair) -> None:
    module, columns, _ = pair
    data = frame(0, b"a") + frame(64, b"not zero", kind=0) + frame(128, b"b")
    walker = module.Walker(walk_twin.Geometry(INITIAL_TERM, TERM, STREAM, MTU, len(data)), True, None)
    walker.select(0, 1 << 62, False)
    sink = columns.RowSink([], 100, 1 << 20)
    status = walker.walk(data, 0, len(data), 0, True, sink)
    assert (status, walker.at, walker.resume) == (walk_twin.PADDING_DATA, 64, 128)
    status = walker.walk(data, walker.resume, len(data), 0, True, sink)
    assert (status, walker.at, sink.row_count) == (walk_twin.END, 192, 2)
