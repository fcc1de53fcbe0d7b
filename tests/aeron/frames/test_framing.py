"""The framer and its twin: golden recordings framed again from their messages, frames worked out by hand, hostile
input."""

from __future__ import annotations

import array
import importlib
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.frames import _framer, framing_twin
from everlog.errors import CorruptData, UsageError
from tests.aeron.frames.framed_messages import HEADER, INITIAL_TERM, TERM, frame, padding

Unpack = Callable[[str], Path]


Truth = Callable[[str], dict[str, Any]]


ARCHIVES = {
    "none": "archive-basic/archive",
    "crc32": "archive-basic/archive-checksum-crc32",
    "crc32c": "archive-basic/archive-checksum-crc32c",
}


RECORDINGS = [0, 1, 2, 3, 5, 6, 7, 9, 11, 12, 13]


"""All of the golden archive but the extended one, the purged one and the empty one."""


def golden_payload(seed: int, sizes: list[int], index: int) -> bytes:
    """The payload that the generator of the golden archives published."""
    length = sizes[index % len(sizes)]
    return bytes((seed * 31 + index * 7 + length + j * (1 + (index & 3))) & 0xFF for j in range(length))


def golden_messages(recording: dict[str, Any]) -> tuple[list[bytes], list[int]]:
    """Payloads and reserved values of a golden recording."""
    notes = recording["notes"]
    sizes = {notes["seed"]: notes["sizes"], notes.get("extendSeed", -1): notes.get("extendSizes")}
    reserved = [row[2] for row in recording["replay"]["messages"]]
    return [golden_payload(value >> 32, sizes[value >> 32], value & 0xFFFFFFFF) for value in reserved], reserved


def golden_framer(framer_of: Callable[..., Any], recording: dict[str, Any], checksum: str, capacity: int = 1) -> Any:
    names = {
        "initial_term_id": "initialTermId",
        "term_length": "termBufferLength",
        "mtu_length": "mtuLength",
        "session_id": "sessionId",
        "stream_id": "streamId",
    }
    options = {ours: recording[theirs] for ours, theirs in names.items()}
    return framer_of(**options, checksum=checksum, capacity=capacity)


def segments_of(folder: Path, recording: dict[str, Any]) -> dict[int, bytes]:
    """A recording's segment files from the one on in which it starts, by their base position."""
    found = {}
    for path in folder.glob(f"{recording['recordingId']}-*.rec"):
        base = int(path.stem.partition("-")[2])
        if base + recording["segmentFileLength"] > recording["startPosition"]:
            found[base] = path.read_bytes()
    return found


def written(framer: Any, segments: dict[int, bytes], start: int, step: Callable[[Any], bool]) -> dict[int, bytes]:
    """Segment files that hold what the framer gives, called as long as ``step`` says so."""
    files = {base: bytearray(len(data)) for base, data in segments.items()}

    def flush(position: int) -> int:
        base = max(base for base in files if base <= position)
        at = framer.start_position - base
        if framer.length:
            files[base][at : at + framer.length] = framer.view()
        return base + len(files[base])

    framer.begin(start, max(base for base in files if base <= start) + len(next(iter(files.values()))))
    while step(framer):
        flush(framer.start_position)
        position = framer.position
        end = max([base + len(data) for base, data in files.items() if base <= position])
        framer.begin(position, end)
    flush(framer.start_position)
    return {base: bytes(data) for base, data in files.items()}


def one_by_one(payloads: list[bytes], reserved: list[int]) -> Callable[[Any], bool]:
    at = 0

    def step(framer: Any) -> bool:
        nonlocal at
        while at < len(payloads) and framer.frame(payloads[at], reserved[at]):
            at += 1
        return bool(at < len(payloads))

    return step


def many(payloads: list[bytes], reserved: Any) -> Callable[[Any], bool]:
    at = 0

    def step(framer: Any) -> bool:
        nonlocal at
        at += framer.frame_many(payloads, at, reserved)
        return bool(at < len(payloads))

    return step


def column(payloads: list[bytes], reserved: Any, code: str) -> Callable[[Any], bool]:
    offsets, at = array.array(code, [0]), 0
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    data = b"".join(payloads)

    def step(framer: Any) -> bool:
        nonlocal at
        at += framer.frame_column(data, offsets, at, len(payloads), reserved)
        return bool(at < len(payloads))

    return step


def blocks(segments: dict[int, bytes], stop: int, limit: int) -> Callable[[Any], bool]:
    """What is recorded, given again in blocks of whole frames, a padding frame as a block of its own."""

    def block_at(position: int) -> Iterator[bytes]:
        base = max(base for base in segments if base <= position)
        data, at, total = segments[base], position - base, 0
        while base + at < stop and at < len(data):
            length, _, _, kind, *_ = HEADER.unpack_from(data, at)
            behind = (length + 31) & -32
            if total and (kind == 0 or total + behind > limit):
                return
            yield data[at : at + behind]
            at, total = at + behind, total + behind

    def step(framer: Any) -> bool:
        while not framer.is_full and framer.position < stop:
            block = b"".join(block_at(framer.position))
            if framer.frame_block(block) < len(block):
                return True
        return bool(framer.position < stop)

    return step


@pytest.mark.parametrize("checksum", ARCHIVES)
@pytest.mark.parametrize("recording_id", RECORDINGS)
def test_the_messages_of_a_golden_recording_give_its_segment_files(
    framer_of: Callable[..., Any], golden_archive: Unpack, golden_truth: Truth, recording_id: int, checksum: str
) -> None:
    recordings = golden_truth("archive-basic/truth")["recordings"]
    (recording,) = [r for r in recordings if r["recordingId"] == recording_id]
    segments = segments_of(golden_archive(ARCHIVES[checksum]), recording)
    payloads, reserved = golden_messages(recording)
    start, stop = recording["startPosition"], recording["stopPosition"]
    assert len(payloads) == len(recording["replay"]["messages"]) > 0
    ways = {
        "one by one": one_by_one(payloads, reserved),
        "many, reserved values of a list": many(payloads, reserved),
        "many, reserved values of a buffer": many(payloads, array.array("q", reserved)),
        "column of int32 offsets": column(payloads, array.array("q", reserved), "i"),
        "column of int64 offsets": column(payloads, tuple(reserved), "q"),
    }
    for name, way in ways.items():
        framer = golden_framer(framer_of, recording, checksum)
        assert written(framer, segments, start, way) == segments, name
        assert framer.position == stop, name


@pytest.mark.parametrize("checksum", ARCHIVES)
@pytest.mark.parametrize("recording_id", RECORDINGS)
@pytest.mark.parametrize("limit", [4096, 1 << 20])
def test_the_frames_of_a_golden_recording_taken_in_blocks_give_its_segment_files(
    framer_of: Callable[..., Any],
    golden_archive: Unpack,
    golden_truth: Truth,
    recording_id: int,
    checksum: str,
    limit: int,
) -> None:
    recordings = golden_truth("archive-basic/truth")["recordings"]
    (recording,) = [r for r in recordings if r["recordingId"] == recording_id]
    plain = segments_of(golden_archive(ARCHIVES["none"]), recording)
    framer = golden_framer(framer_of, recording, checksum)
    found = written(framer, plain, recording["startPosition"], blocks(plain, recording["stopPosition"], limit))
    assert found == segments_of(golden_archive(ARCHIVES[checksum]), recording)
    assert framer.position == recording["stopPosition"]


@pytest.mark.parametrize("checksum", ARCHIVES)
def test_an_extended_golden_recording_is_framed_by_two_framers(
    framer_of: Callable[..., Any], golden_archive: Unpack, golden_truth: Truth, checksum: str
) -> None:
    (recording,) = [r for r in golden_truth("archive-basic/truth")["recordings"] if r["recordingId"] == 4]
    segments = segments_of(golden_archive(ARCHIVES[checksum]), recording)
    payloads, reserved = golden_messages(recording)
    first, middle = recording["notes"]["messageCount"], recording["notes"]["firstStopPosition"]
    before = golden_framer(framer_of, recording | {"sessionId": recording["files"]["frames"][0][6]}, checksum)
    files = written(before, segments, 0, many(payloads[:first], reserved))
    assert before.position == middle
    behind = golden_framer(framer_of, recording, checksum)
    later = written(behind, segments, middle, many(payloads[first:], reserved[first:]))
    for base, data in later.items():
        files[base] = bytes(a | b for a, b in zip(files[base], data, strict=True))
    assert files == segments


def test_a_framer_before_its_first_begin_takes_nothing(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    assert framer.is_full
    assert (framer.start_position, framer.position, framer.length, bytes(framer.view())) == (0, 0, 0, b"")
    assert framer.frame(b"a") is False
    assert framer.frame_many([b"a"], 0) == 0
    assert framer.frame_column(b"a", array.array("i", [0, 1]), 0, 1) == 0
    assert framer.frame_block(frame(0, b"a")) == 0


@pytest.mark.parametrize(
    ("term_length", "longest"),
    [(64 << 10, 8 << 10), (16 << 20, 2 << 20), (128 << 20, 16 << 20), (1 << 30, 16 << 20)],
)
def test_a_message_is_as_long_as_an_eighth_of_a_term_and_16_mib_at_most(
    framer_of: Callable[..., Any], term_length: int, longest: int
) -> None:
    framer = framer_of(term_length=term_length, mtu_length=8192, capacity=1)
    assert framer.max_message_length == longest
    assert framer.max_payload_length == 8160
    framer.begin(0, term_length)
    assert framer.frame(bytes(longest))
    behind = framer.length
    assert behind == longest + 32 * -(-longest // 8160) + -longest % 32
    with pytest.raises(UsageError, match=f"message must be at most {longest} bytes long, not {longest + 1}"):
        framer.frame(bytes(longest + 1))
    assert framer.length == framer.position == behind


def test_short_messages_are_one_frame_each_and_what_is_behind_them_is_zero(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    payloads = [b"", b"a", b"b" * 31, b"c" * 32, b"d" * 33, b"e" * 223, b"f" * 224]
    framer.begin(0, TERM)
    assert framer.frame(b"\xff" * 224)  # the buffer isn't clean
    framer.begin(2 * TERM + 96, 3 * TERM)
    expected, position = b"", 2 * TERM + 96
    for index, payload in enumerate(payloads):
        assert framer.frame(payload, index - 3)
        expected += frame(position + len(expected), payload, reserved=index - 3)
    assert bytes(framer.view()) == expected
    assert (framer.start_position, framer.position) == (position, position + len(expected))
    assert framer.length == len(expected)
    assert not framer.is_full


@pytest.mark.parametrize(("length", "flags"), [(225, [0x80, 0x40]), (448, [0x80, 0x40]), (449, [0x80, 0, 0x40])])
def test_long_messages_are_cut_at_the_mtu(framer_of: Callable[..., Any], length: int, flags: list[int]) -> None:
    framer = framer_of()
    payload = bytes(i % 251 for i in range(length))
    framer.begin(64, TERM)
    assert framer.frame(payload, -(1 << 63))
    expected = b""
    for index, flag in enumerate(flags):
        part = payload[224 * index : 224 * (index + 1)]
        expected += frame(64 + len(expected), part, flags=flag, reserved=-(1 << 63))
    assert bytes(framer.view()) == expected


@pytest.mark.parametrize("length", [0, 1, 32, 224, 225, 3000])
def test_a_message_that_does_not_fit_in_the_term_leaves_padding_and_begins_the_next(
    framer_of: Callable[..., Any], length: int
) -> None:
    framed = length + 32 * max(1, -(-length // 224))
    framed += -framed % 32
    payload, position = b"x" * length, TERM - framed
    framer = framer_of()
    framer.begin(position, 4 * TERM)
    assert framer.frame(payload)  # it fills the term exactly: no padding
    assert framer.length == framed
    assert framer.position == TERM
    assert not framer.is_full
    if framed == 32:
        return
    framer.begin(position + 32, 4 * TERM)
    assert not framer.frame(payload)
    assert bytes(framer.view()) == padding(position + 32)
    assert framer.is_full
    assert (framer.start_position, framer.position, framer.length) == (position + 32, TERM, 32)
    assert not framer.frame(b"")  # behind padding nothing is framed
    assert framer.frame_many([b""], 0) == 0
    assert framer.frame_block(frame(TERM, b"")) == 0
    assert framer.length == 32
    framer.begin(framer.position, 4 * TERM)
    assert framer.frame(payload)
    assert framer.position == TERM + framed


def test_frames_go_on_in_the_next_term_where_nothing_is_padded_and_stop_at_the_end(
    framer_of: Callable[..., Any],
) -> None:
    framer = framer_of()
    payloads = [bytes([i]) * 224 for i in range(256)]
    ways: tuple[Callable[[], int], ...] = (
        lambda: framer.frame_many(payloads * 3, 0),
        lambda: framer.frame_column(b"".join(payloads * 3), array.array("q", range(0, 224 * 769, 224)), 0, 768),
        lambda: sum(framer.frame(payload) for payload in payloads * 3),
        lambda: framer.frame_block(b"".join(frame(256 * i, payloads[i % 256]) for i in range(512))) // 256,
    )
    for way in ways:
        framer.begin(0, 2 * TERM)
        assert way() == 512
        assert framer.is_full
        assert framer.position == framer.length == 2 * TERM
        view = framer.view()
        assert bytes(view[TERM - 256 : TERM]) == frame(TERM - 256, payloads[255])
        assert bytes(view[TERM : TERM + 256]) == frame(TERM, payloads[0])
        assert not framer.frame(b"")
        assert framer.length == 2 * TERM


def test_a_message_that_does_not_fit_in_the_buffer_is_left_without_padding(framer_of: Callable[..., Any]) -> None:
    framer = framer_of(capacity=1)
    assert framer.capacity == 64 << 10
    messages = [bytes(8192)] * 8  # 9376 bytes each: 36 frames of 256, one of 160
    offsets = array.array("i", range(0, 8192 * 9, 8192))
    ways: tuple[Callable[[], int], ...] = (
        lambda: framer.frame_many(messages, 0),
        lambda: framer.frame_column(bytes(8192 * 8), offsets, 0, 8),
        lambda: sum(framer.frame(message) for message in messages),
    )
    for way in ways:
        framer.begin(TERM // 2, 2 * TERM)
        assert framer.frame_many([b"x" * 224] * 128, 0) == 128  # to the term's end
        assert way() == 3
        assert framer.length == TERM // 2 + 3 * 9376
        assert framer.position == TERM + 3 * 9376
        assert not framer.is_full


def test_padding_waits_for_room_in_the_buffer(framer_of: Callable[..., Any]) -> None:
    framer = framer_of(capacity=65536 + 8)
    framer.begin(TERM // 2, 4 * TERM)
    assert framer.frame_many([b"x" * 224] * 1000, 0) == 256
    assert framer.length == 65536
    framer.begin(TERM + 32, 4 * TERM)
    assert framer.frame_many([b"x" * 224] * 255, 0) == 255
    assert not framer.frame(b"x" * 224)
    assert framer.position == 2 * TERM
    framer.begin(64, 4 * TERM)
    assert framer.frame_many([b"x" * 32] * 1022, 0) == 1022  # 65,408 bytes
    assert framer.frame_many([b"x" * 32, b"y" * 224], 0) == 1
    assert (framer.position, framer.length, framer.is_full) == (TERM, 65472, False)
    assert not framer.frame(b"x" * 224)
    assert (framer.position, framer.length, framer.is_full) == (TERM, 65472, False)


def test_term_ids_wrap_and_positions_are_large(framer_of: Callable[..., Any]) -> None:
    framer = framer_of(initial_term_id=2**31 - 1)
    framer.begin(TERM - 32, 2 * TERM)
    assert framer.frame_many([b"", b""], 0) == 2
    assert bytes(framer.view()) == frame(TERM - 32, b"", term_id=2**31 - 1) + frame(TERM, b"", term_id=-(2**31))
    both = bytes(framer.view())
    framer.begin(TERM - 32, 2 * TERM)
    assert framer.frame_block(both) == 64
    framer = framer_of()
    start = (1 << 62) - 64
    framer.begin(start, 1 << 62)
    assert framer.frame_many([b"", b"", b""], 0) == 2
    term_id = ((INITIAL_TERM + start // TERM + 2**31) % 2**32) - 2**31
    assert bytes(framer.view()[:32]) == frame(start, b"", term_id=term_id)
    assert framer.position == 1 << 62
    assert framer.is_full


def test_a_checksum_is_over_the_payload_and_its_padding_and_takes_the_session_ids_place(
    framer_of: Callable[..., Any],
) -> None:
    def signed(value: int) -> int:
        return value - (1 << 32 if value >> 31 else 0)

    framer = framer_of(checksum="crc32")
    framer.begin(0, TERM)
    assert framer.frame_many([b"abc", b"", b"x" * 300], 0) == 3
    parts = (b"abc".ljust(32, b"\0"), b"", b"x" * 224, (b"x" * 76).ljust(96, b"\0"))
    crcs = [signed(zlib.crc32(part)) for part in parts]
    assert crcs[1] == 0
    expected = frame(0, b"abc", session=crcs[0]) + frame(64, b"", session=0)
    expected += frame(96, b"x" * 224, flags=0x80, session=crcs[2])
    expected += frame(352, b"x" * 76, flags=0x40, session=crcs[3])
    assert bytes(framer.view()) == expected
    framer.begin(TERM - 32, 2 * TERM)
    assert not framer.frame(b"abc")
    assert bytes(framer.view()) == padding(TERM - 32)  # with the session id


def test_the_bytes_behind_a_payload_of_a_block_are_kept_and_checked(framer_of: Callable[..., Any]) -> None:
    dirty = frame(0, b"abc")[:35] + b"\x01" * 29
    framer = framer_of(checksum="crc32")
    framer.begin(0, TERM)
    assert framer.frame_block(dirty) == 64
    assert bytes(framer.view()[32:]) == dirty[32:]
    assert struct.unpack_from("<I", framer.view(), 12) == (zlib.crc32(dirty[32:]),)


@pytest.mark.parametrize("whole", [False, True])
def test_padding_of_a_block_is_taken_last_and_only_its_header_kept(framer_of: Callable[..., Any], whole: bool) -> None:
    framer = framer_of(checksum="crc32")
    position = TERM - 256
    block = frame(position, b"a") + padding(position + 64)
    block += b"\x07" * (192 - 32) + frame(TERM, b"later") if whole else b""
    framer.begin(position, 4 * TERM)
    assert framer.frame_block(block) == (256 if whole else 96)
    assert framer.length == 96
    assert bytes(framer.view()[64:]) == padding(position + 64)
    assert framer.is_full
    assert framer.position == TERM


def test_padding_of_a_block_may_lie_in_mid_term(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    block = frame(0, bytes(64), kind=0) + frame(96, b"a")
    assert framer.frame_block(block) == 96
    assert (framer.length, framer.position, framer.is_full) == (32, 96, True)
    framer.begin(96, TERM)
    assert framer.frame_block(block[96:]) == 64
    assert framer.position == 160


def test_a_block_is_taken_as_far_as_the_buffer_goes(framer_of: Callable[..., Any]) -> None:
    framer = framer_of(capacity=65536 + 100)
    block = b"".join(frame(1024 * i, bytes([i]) * 992) for i in range(100) if i < 64)
    block += b"".join(frame(TERM + 1024 * i, bytes([i]) * 992) for i in range(64))
    framer.begin(0, 2 * TERM)
    assert framer.frame_block(block) == 65536
    assert bytes(framer.view()) == block[:65536]
    framer.begin(framer.position, 2 * TERM)
    assert framer.frame_block(memoryview(block)[65536:]) == 65536
    assert bytes(framer.view()) == block[65536:]
    assert framer.frame_block(b"") == 0
    framer.begin(2 * TERM - 32, 3 * TERM)
    assert framer.frame_block(b"") == 0


@pytest.mark.parametrize("seed", range(60))
def test_the_compiled_framer_does_what_its_twin_does(seed: int) -> None:
    chance = random.Random(seed)
    term_length, mtu_length = chance.choice([(64 << 10, 64), (64 << 10, 1408), (64 << 10, 8192), (128 << 10, 480)])
    options: dict[str, Any] = {
        "initial_term_id": chance.choice([0, 2**31 - 2, -(2**31), chance.getrandbits(31)]),
        "term_length": term_length,
        "mtu_length": mtu_length,
        "session_id": chance.getrandbits(32) - 2**31,
        "stream_id": chance.getrandbits(32) - 2**31,
        "checksum": chance.choice(["none", "none", "none", "crc32", "crc32c"]),
        "capacity": chance.choice([1, 70_000, 200_001]),
    }
    pair = [_framer.Framer(**options), framing_twin.Framer(**options)]
    position = chance.randrange(0, 1 << 40) * 32
    longest = chance.choice([40, 300, mtu_length + 40, term_length // 8])
    for _ in range(40):
        end = (position // term_length + chance.randint(1, 3)) * term_length
        step = a_step(chance, options, position, longest)
        compiled, twin = (outcome(framer, position, end, step) for framer in pair)
        assert compiled == twin
        position = pair[0].position


def a_step(chance: random.Random, options: dict[str, Any], position: int, longest: int) -> Callable[[Any], list[Any]]:
    """A few calls, the same for both framers: some with input that is wrong."""
    payloads: list[Any] = [chance.randbytes(chance.randrange(longest + 1)) for _ in range(chance.randrange(1, 90))]
    reserved: list[Any] = [chance.getrandbits(64) - 2**63 for _ in payloads]
    offsets = array.array(chance.choice("iq"), [0])
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    data = b"".join(payloads)
    if chance.random() < 0.3:
        payloads[chance.randrange(len(payloads))] = chance.choice([None, bytearray(b"abc"), bytes(70_000), "x"])
    if chance.random() < 0.2:
        offsets[chance.randrange(len(offsets))] = chance.randrange(-9, len(data) + 9)
    values = chance.choice([None, array.array("q", reserved), reserved, tuple(reserved)])
    if chance.random() < 0.2:
        reserved[chance.randrange(len(reserved))] = chance.choice([1 << 63, "1", True])
    maker = framing_twin.Framer(**options | {"checksum": "none", "capacity": 1 << 20})
    maker.begin(position, (position // options["term_length"] + 1) * options["term_length"])
    for payload, value in zip(data[: 9 * longest].split(b"\x07"), reserved, strict=False):
        if not maker.frame(payload, value if type(value) is int and value < 1 << 63 else 0):
            break
    block = bytearray(maker.view())
    if chance.random() < 0.5 and block:
        block[chance.randrange(len(block))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        del block[chance.randrange(len(block) + 1) :]

    def step(framer: Any) -> list[Any]:
        return [
            tried(lambda: framer.frame_block(block)),
            tried(lambda: framer.frame_many(payloads, len(payloads) // 5, values)),
            tried(lambda: framer.frame_column(data, offsets, len(payloads) // 5, len(payloads), values)),
            tried(lambda: framer.frame(payloads[-1], reserved[-1])),
            tried(lambda: framer.frame_many(payloads, 0)),
        ]

    return step


def tried(call: Callable[[], Any]) -> Any:
    """What it gives or raises."""
    try:
        return call()
    except (UsageError, CorruptData) as error:
        return type(error), str(error)


def outcome(framer: Any, position: int, end: int, step: Callable[[Any], list[Any]]) -> tuple[Any, ...]:
    framer.begin(position, end)
    results = step(framer)
    return results, bytes(framer.view()), framer.length, framer.start_position, framer.position, framer.is_full


@pytest.mark.parametrize("module", ["everlog.aeron.frames._framer", "everlog.aeron.frames.framing_twin"])
def test_the_longest_of_several_payloads_is_found_whatever_they_are(module: str) -> None:
    longest_of = importlib.import_module(module).longest_of
    assert longest_of([]) == 0
    assert longest_of([b"a", b"abc", bytearray(b"ab")]) == 3
    assert longest_of((memoryview(b"abcd"), b"a")) == 4
    with pytest.raises(TypeError):
        longest_of([b"a", 7])
