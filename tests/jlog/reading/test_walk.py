"""The message walker and its twin: each status, and the same results on hostile bytes."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from types import ModuleType

import pytest

from everlog.jlog.format.layouts import JlogHeader
from everlog.jlog.reading import _walk, walk_twin
from everlog.jlog.reading.walk_twin import END, FAULT, FULL, MORE, STOP, SUSPECT
from everlog.kernel import _columns, columns_twin
from everlog.kernel.sources import Bytes, FieldOf, Value

PAIRS = [(walk_twin, columns_twin), (_walk, _columns)]

PLAIN, NULL, LZ4 = 0x663A7318, 0x15106A00, 0x15106A01
COLUMNS = [
    ("timestamp_ns", "q", Value(0)),
    ("length", "q", FieldOf(JlogHeader.length)),
    ("payload", "B", Bytes(0)),
    ("log", "q", Value(1)),
    ("marker", "q", Value(2)),
    ("offset", "q", Value(3)),
]


@pytest.fixture(params=PAIRS, ids=lambda pair: pair[0].__name__.rsplit(".", 1)[1])
def pair(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    return request.param


def message(payload: bytes, time: int = 7, usec: int = 0, magic: int = PLAIN) -> bytes:
    return struct.pack("<IIII", magic, time, usec, len(payload)) + payload


def stored(payload: bytes, length: int, magic: int) -> bytes:
    return struct.pack("<IIIII", magic, 7, 0, length, len(payload)) + payload


def walk(pair, data, *, start=0, end=None, at_end=True, magic=PLAIN, provider=-1, trusted=-1, **bounds):
    walker, kernel = pair
    sink = kernel.RowSink(COLUMNS, bounds.pop("max_rows", 100), bounds.pop("max_bytes", 1 << 20))
    first, stop, marker = bounds.get("first", 1), bounds.get("stop", 1 << 62), bounds.get("marker", 1)
    end = len(data) if end is None else end
    reached = walker.walk_messages(
        data, start, end, at_end, bounds.get("base", 0), magic, provider, 5, marker, first, stop, trusted, sink
    )
    count, taken = sink.take()
    rows = []
    if count:
        values = [taken[name][0].tolist()[:count] for name, code, _ in COLUMNS if code == "q"]
        raw, offsets = bytes(taken["payload"][0]), taken["payload"][1].tolist()
        payloads = [raw[a:b] for a, b in pairwise(offsets)][:count]
        rows = list(zip(*values, payloads, strict=True))
    return reached, rows


def test_messages_are_given_with_time_number_place_and_payload(pair):
    data = message(b"one", 3, 4) + message(b"", 5, 999_999)
    reached, rows = walk(pair, data, base=1000, marker=8)
    assert reached == (len(data), 10, END)
    assert rows == [
        (3_000_004_000, 3, 5, 8, 1000, b"one"),
        (5_999_999_000, 0, 5, 9, 1019, b""),
    ]


def test_the_largest_time_fits(pair):
    _, rows = walk(pair, message(b"", 0xFFFF_FFFF, 999_999))
    assert rows[0][0] == 0xFFFF_FFFF * 10**9 + 999_999_000


def test_no_bytes_are_the_end_or_ask_for_more(pair):
    assert walk(pair, b"")[0] == (0, 1, END)
    assert walk(pair, b"", at_end=False)[0] == (0, 1, MORE)


def test_a_message_waits_for_the_header_behind_it(pair):
    data = message(b"abc") + message(b"def")
    for end in range(19, 35):
        reached, rows = walk(pair, data, end=end, at_end=False)
        assert reached == (0, 1, MORE)
        assert rows == []
    assert walk(pair, data, end=35, at_end=False)[0] == (19, 2, MORE)


def test_only_the_numbers_asked_for_are_given(pair):
    data = b"".join(message(bytes([i])) for i in range(10))
    reached, rows = walk(pair, data, first=3, stop=6)
    assert reached == (5 * 17, 6, STOP)
    assert [row[-1] for row in rows] == [b"\2", b"\3", b"\4"]


def test_a_full_sink_stops_before_the_message_that_does_not_fit(pair):
    data = b"".join(message(b"12345") for _ in range(5))
    assert walk(pair, data, max_rows=2)[0] == (42, 3, FULL)
    assert walk(pair, data, max_bytes=14)[0] == (42, 3, FULL)
    assert walk(pair, data, max_bytes=1)[0] == (21, 2, FULL), "the first one is taken, whatever its size"


@pytest.mark.parametrize(
    "bad",
    [
        message(b"abc", magic=PLAIN + 1),
        message(b"abc", usec=1_000_000),
        struct.pack("<IIII", PLAIN, 7, 0, (1 << 30)) + b"abc",
        struct.pack("<IIII", PLAIN, 7, 0, 0xFFFF_FFFF) + b"abc",
        message(b"abc")[:-1],
        message(b"abc")[:15],
        b"\0" * 32,
    ],
    ids=["magic", "microseconds", "long", "longest", "torn", "torn header", "zeros"],
)
def test_what_is_no_message_is_a_fault_and_so_is_one_before_it(pair, bad):
    assert walk(pair, bad)[0] == (0, 1, FAULT)
    before = message(b"first")
    place = (
        (0, 1, FAULT) if walk_twin.stored_length(bad.ljust(16), 0, PLAIN, -1) < 0 or len(bad) < 16 else (21, 2, FAULT)
    )
    assert walk(pair, before + bad)[0] == place


def test_a_trusted_message_is_taken_without_a_look_behind_it(pair):
    data = message(b"abc") + b"\xaa" * 30
    assert walk(pair, data)[0] == (0, 1, FAULT)
    reached, rows = walk(pair, data, trusted=0)
    assert reached == (19, 2, FAULT)
    assert rows[0][-1] == b"abc"


def test_a_message_that_holds_a_whole_one_is_suspect(pair):
    for pad in range(70):
        data = message(b"x" * pad + message(b"inner") + b"y" * (pad % 3)) + message(b"next")
        assert walk(pair, data)[0] == (0, 1, SUSPECT), pad
        assert walk(pair, data, trusted=0)[0] == (len(data), 3, END)


@pytest.mark.parametrize("length", [*range(64, 70), 127, 128, 129, 193, 256, 1023])
def test_a_header_is_found_wherever_it_is_in_a_payload(length):
    """The compiled walker looks through a payload while it copies it, 64 bytes at a time."""
    pair = (_walk, _columns)
    inner = message(b"")
    for at in range(length - len(inner) + 1):
        payload = bytearray(b"\x5a") * length
        payload[at : at + len(inner)] = inner
        first = message(b"before" * 20)
        reached, rows = walk(pair, first + message(bytes(payload)) + message(b"after"))
        assert reached == (len(first), 2, SUSPECT)
        assert [row[-1] for row in rows] == [b"before" * 20]
    plain = bytes(range(256)) * 5
    data = message(plain[:length]) + message(plain[1 : length + 1]) + message(b"end")
    reached, rows = walk(pair, data)
    assert reached[2] == END
    assert [row[-1] for row in rows] == [plain[:length], plain[1 : length + 1], b"end"]


def test_the_magic_alone_in_a_payload_is_not_suspect(pair):
    magic = struct.pack("<I", PLAIN)
    for pad in range(70):
        inside = b"x" * pad + magic + b"\xff" * 12 + magic
        data = message(inside) + message(inside + b"\xff" * 12 + message(b"cut")[:-1]) + message(b"last")
        reached, rows = walk(pair, data)
        assert reached == (len(data), 4, END)
        assert rows[0][-1] == inside


def test_in_the_last_message_a_header_whose_message_is_cut_is_suspect_too(pair):
    data = message(b"before") + message(b"xyz" + message(b"cut off")[:-2])
    assert walk(pair, data)[0] == (22, 2, SUSPECT)
    assert walk(pair, data + message(b"behind"))[0] == (len(data) + 22, 4, END)


def test_an_empty_message_of_the_null_provider_has_no_payload(pair):
    data = stored(b"abc", 3, NULL) + stored(bytes(16_384), 0, NULL) + stored(b"d", 1, NULL)
    reached, rows = walk(pair, data, magic=NULL, provider=0)
    assert reached == (len(data), 4, END)
    assert [row[1] for row in rows] == [3, 0, 1]
    assert [row[-1] for row in rows] == [b"abc", b"", b"d"]


@pytest.mark.parametrize(("length", "size"), [(4, 3), (2, 3), (0, 1), (0, 16_383), (3, 16_384)])
def test_the_null_provider_stores_payloads_as_they_are(pair, length, size):
    assert walk(pair, stored(bytes(size), length, NULL), magic=NULL, provider=0)[0] == (0, 1, FAULT)


@pytest.mark.parametrize(
    ("length", "size", "good"),
    [(0, 1, True), (0, 0, False), (255, 1, True), (256, 1, False), (10, 26, True), (10, 27, False), (255, 272, True)],
)
def test_a_stored_lz4_length_must_be_possible(pair, length, size, good):
    data = stored(bytes(size), length, LZ4)
    reached, rows = walk(pair, data, magic=LZ4, provider=1)
    assert reached == ((len(data), 2, END) if good else (0, 1, FAULT))
    assert [row[-1] for row in rows] == ([bytes(size)] if good else [])


def test_a_message_of_version_1_needs_a_time(pair):
    assert walk(pair, message(b"abc", magic=0), magic=0)[0] == (19, 2, END)
    assert walk(pair, message(b"abc", 0, magic=0), magic=0)[0] == (0, 1, FAULT)


def test_places_outside_the_buffer_are_refused():
    for walker, kernel in PAIRS[1:]:
        for start, end in ((0, 4), (-1, 2), (3, 2)):
            with pytest.raises(IndexError):
                walker.walk_messages(
                    b"abc", start, end, True, 0, PLAIN, -1, 0, 1, 1, 9, -1, kernel.RowSink(COLUMNS, 9, 9)
                )


def test_both_walkers_agree_on_hostile_bytes():
    dice = random.Random(20)
    for _ in range(1500):
        magic, provider = dice.choice([(PLAIN, -1), (NULL, 0), (LZ4, 1), (0, -1), (0x15106A07, 2)])
        data = bytearray()
        while len(data) < 200:
            payload = dice.randbytes(dice.choice([0, 1, 3, 16, 40]))
            if dice.random() < 0.2:
                payload += struct.pack("<I", magic)
            if provider == -1:
                data += message(payload, dice.choice([0, 7]), magic=magic)
            else:
                data += stored(payload, len(payload), magic)
        for _ in range(dice.choice([0, 1, 2])):
            at = dice.randrange(len(data))
            data[at] ^= 1 << dice.randrange(8)
        arguments = {
            "end": dice.randrange(len(data) + 1),
            "at_end": dice.random() < 0.5,
            "magic": magic,
            "provider": provider,
            "first": dice.choice([1, 1, 3]),
            "max_rows": dice.choice([2, 100]),
            "max_bytes": dice.choice([10, 1000]),
            "trusted": dice.choice([-1, 0]),
        }
        results = [walk(pair, bytes(data), **arguments) for pair in PAIRS]
        assert all(result == results[0] for result in results), (arguments, data.hex())
