"""Frames other than data, against what the real system sent and what tshark says about it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.wire_layouts import FrameHeader
from everlog.aeron.transport.protocol import wire
from everlog.errors import CorruptData, UsageError
from tests.aeron.transport.protocol.pcaps import datagrams, dissections, signed

CAPTURES = ("misc-frames", "lossy-unicast")


def control_frames(name: str) -> list[tuple[bytes, dict[str, str]]]:
    both = zip(datagrams(name), dissections(name), strict=True)
    return [(data, shown) for (_, data), shown in both if wire.frame_type(data) not in (0, 1)]


@pytest.mark.parametrize("name", CAPTURES)
def test_every_control_frame_says_what_tshark_says(name: str) -> None:
    seen: Counter[type] = Counter()
    for data, shown in control_frames(name):
        frame = wire.decode(data)
        seen[type(frame)] += 1
        match frame:
            case wire.Setup():
                assert frame == wire.Setup(
                    *(signed(shown[key]) for key in ("Session ID", "Stream ID", "Initial Term ID", "Active Term ID")),
                    *(signed(shown[key]) for key in ("Term Offset", "Term Length", "MTU", "TTL", "Flags")),
                )
                assert frame.is_valid()
            case wire.StatusMessage():
                feedback = shown.get("Application-specific Feedback")
                assert frame == wire.StatusMessage(
                    *(signed(shown[key]) for key in ("Session ID", "Stream ID", "Consumption Term ID")),
                    *(signed(shown[key]) for key in ("Consumption Term Offset", "Receiver Window")),
                    signed(shown["Receiver ID"], 64),
                    None if feedback is None else int.from_bytes(bytes.fromhex(feedback), "little"),
                    signed(shown["Flags"]),
                )
                assert frame.is_valid(65536)
            case wire.Nak():
                keys = "Session ID", "Stream ID", "Term ID", "Term Offset", "Length"
                assert frame == wire.Nak(*(signed(shown[key]) for key in keys))
                assert frame.is_valid(65536)
            case wire.RttMeasurement():
                assert frame == wire.RttMeasurement(
                    *(signed(shown[key]) for key in ("Session ID", "Stream ID")),
                    *(signed(shown[key], 64) for key in ("Echo Timestamp", "Reception Delta", "Receiver ID")),
                    signed(shown["Flags"]),
                )
    expected: dict[str, dict[type, int]] = {
        "misc-frames": {
            wire.RttMeasurement: 1742,
            wire.StatusMessage: 78,
            wire.Resolution: 20,
            wire.Setup: 10,
            wire.ErrorFrame: 9,
            wire.ResponseSetup: 1,
        },
        "lossy-unicast": {wire.Nak: 258, wire.StatusMessage: 58, wire.Setup: 1},
    }
    assert seen == expected[name]


@pytest.mark.parametrize("name", CAPTURES)
def test_what_was_read_is_written_as_the_same_bytes(name: str) -> None:
    for data, _ in control_frames(name):
        assert wire.encode(wire.decode(data)) == data


@pytest.mark.parametrize("name", CAPTURES)
def test_heartbeats_are_written_as_the_real_ones(name: str) -> None:
    found = set()
    for _, data in datagrams(name):
        header = DataHeader.unpack_from(data) if wire.frame_type(data) == wire.TYPE_DATA else None
        if header is not None and header.frame_length == 0:
            ids = header.session_id, header.stream_id, header.term_id, header.term_offset
            assert wire.heartbeat(*ids, header.flags) == data
            found.add(header.flags)
    assert found == ({0xC0, 0xE0, 0xF0} if name == "misc-frames" else {0xC0})


def test_frames_that_tshark_can_not_read_say_what_their_program_did() -> None:
    frames = [wire.decode(data) for data, _ in control_frames("misc-frames")]
    errors = {frame for frame in frames if isinstance(frame, wire.ErrorFrame)}
    assert {(e.session_id, e.stream_id, e.message, e.group_tag) for e in errors} == {
        (-287723384, 4, "gold test reject", None)
    }
    resolutions = [frame for frame in frames if isinstance(frame, wire.Resolution)]
    loopback = bytes([127, 0, 0, 1])
    first = wire.ResolutionEntry("driverB", loopback, 18411, age_ms=0, is_self=True)
    assert resolutions[0].entries == (first,)
    assert {(e.name, e.port) for r in resolutions for e in r.entries} == {("driverA", 18410), ("driverB", 18411)}
    # The request's session and the response's, as its program printed them.
    (response,) = [frame for frame in frames if isinstance(frame, wire.ResponseSetup)]
    assert response == wire.ResponseSetup(-287723381, 7, 955686841)


def test_a_frame_cut_anywhere_is_refused() -> None:
    shortest = {wire.TYPE_NAK: 28, wire.TYPE_SM: 36, wire.TYPE_ERR: 40, wire.TYPE_SETUP: 40}
    shortest |= {wire.TYPE_RTTM: 40, wire.TYPE_RES: 8, wire.TYPE_RSP_SETUP: 20}
    samples = {wire.frame_type(data): data for name in CAPTURES for data, _ in control_frames(name)}
    assert samples.keys() == shortest.keys()
    for kind, data in samples.items():
        for length in range(len(data)):
            with pytest.raises(CorruptData):
                wire.decode(data[:length])
        assert wire.decode(b"\xff" * 8 + data, 8) == wire.decode(data)
        assert len(data) >= shortest[kind]


def test_another_version_or_an_unknown_type_is_refused() -> None:
    nak = wire.encode(wire.Nak(1, 2, 3, 64, 32))
    assert wire.frame_type(nak) == 2
    assert wire.frame_type(nak[:4] + b"\x01" + nak[5:]) == -1
    for wrong in (nak[:4] + b"\x01" + nak[5:], nak[:6] + b"\x63\0" + nak[8:], wire.heartbeat(1, 2, 3, 0), b""):
        with pytest.raises(CorruptData):
            wire.decode(wrong)


@given(st.binary(max_size=200), st.sampled_from([2, 3, 4, 5, 6, 7, 11]), st.integers(-1, 250))
def test_random_bytes_are_read_or_refused_and_nothing_else(body: bytes, kind: int, length: int) -> None:
    data = FrameHeader.struct.pack(length, 0, 0, kind) + body
    try:
        frame = wire.decode(data)
    except CorruptData:
        return
    assert isinstance(wire.encode(frame), bytes)


def test_numbers_that_a_stream_can_not_have_are_told() -> None:
    term = 65536
    assert wire.Nak(1, 2, 3, 65504, 32).is_valid(term)
    for offset, length in ((65504, 64), (-32, 32), (33, 32), (65536, 0), (0, -1), (32, 2**31 - 1)):
        assert not wire.Nak(1, 2, 3, offset, length).is_valid(term)
    assert wire.StatusMessage(1, 2, 3, 0, 32768, 9).is_valid(term)
    for offset, window in ((1, 0), (-32, 0), (65536, 0), (0, 32769), (0, -1)):
        assert not wire.StatusMessage(1, 2, 3, offset, window, 9).is_valid(term)
    good = wire.Setup(1, 2, 3, 3, 0, term, 1408)
    assert good.is_valid()
    for length, offset, mtu in ((65537, 0, 1408), (32768, 0, 1408), (1 << 31, 0, 1408), (term, 65536, 1408)):
        assert not wire.Setup(1, 2, 3, 3, offset, length, mtu).is_valid()
    for mtu in (0, 1400, 65536, -32):
        assert not wire.Setup(1, 2, 3, 3, 0, term, mtu).is_valid()


def test_feedback_that_is_no_group_tag_is_kept() -> None:
    frame = wire.StatusMessage(1, 2, 3, 0, 32, 9, feedback=b"\xff\xff\xff\xff")
    data = wire.encode(frame)
    assert len(data) == 40
    assert wire.decode(data) == frame


def test_an_error_message_is_cut_and_a_wrong_length_refused() -> None:
    data = wire.encode(wire.ErrorFrame(1, 2, 3, 4, "x" * 2000 + "é", group_tag=-5))
    assert len(data) == 40 + 1023
    assert wire.decode(data) == wire.ErrorFrame(1, 2, 3, 4, "x" * 1023, group_tag=-5)
    for count in (1024, -1, 2**31 - 1):
        with pytest.raises(CorruptData, match="message of"):
            wire.decode(data[:36] + count.to_bytes(4, "little", signed=True) + data[40:])


def test_a_resolution_holds_names_of_both_kinds_of_addresses() -> None:
    entries = (
        wire.ResolutionEntry("a", bytes([10, 0, 0, 1]), 8050, 17),
        wire.ResolutionEntry("seventeen-letters", bytes(range(16)), 65535, 0, is_self=True),
    )
    data = wire.encode(wire.Resolution(entries))
    # 8 + (8 + 4 + 2 + 1 -> 16) + (8 + 16 + 2 + 17 -> 48)
    assert len(data) == 72
    assert wire.decode(data) == wire.Resolution(entries)
    for entry in (wire.ResolutionEntry("", bytes(4), 1), wire.ResolutionEntry("a", bytes(5), 1)):
        with pytest.raises(UsageError):
            wire.encode(wire.Resolution((entry,)))
