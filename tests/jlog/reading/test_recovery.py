"""Reading past damage: nothing that was not written, and every whole message behind it."""

from __future__ import annotations

import pytest

from everlog.core.report import Severity
from everlog.errors import CorruptData, MissingDependency
from everlog.jlog.store import JlogStore


def read(storage, **options):
    faults = []
    store = JlogStore.open(storage, options)
    rows = [(r.fields["marker"], r.payload) for r in store.read("journal", on_fault=faults.append)]
    return rows, [(f.code, f.file, f.offset) for f in faults]


def numbered(count, size=40):
    return [bytes([i]) * size for i in range(count)]


def test_a_torn_message_with_its_length_up_to_the_end_of_the_data_is_not_merged_with_the_one_behind_it(make):
    # The first has 100 bytes of payload, 56 of which were written; the one behind it has just the 44 that are missing.
    torn = make.message(b"a" * 100, 10)[:-44]
    behind = make.message(b"b" * 28, 20)
    assert len(torn + behind) == 116
    rows, faults = read(make.folder({"00000000": torn + behind}))
    assert rows == [(2, b"b" * 28)]
    assert faults == [("merged-records", "00000000", 0)]


@pytest.mark.parametrize("missing", range(45, 60))
def test_a_torn_message_that_ends_less_than_a_header_before_the_end_is_not_merged(make, missing):
    first = make.message(b"first", 9)
    torn = make.message(b"a" * 100, 10)[:-44]
    behind = make.message(b"b" * (missing - 16), 20)
    rows, faults = read(make.folder({"00000000": first + torn + behind}))
    assert rows == [(1, b"first"), (3, b"b" * (missing - 16))]
    assert [f[2] for f in faults] == [21]


def test_a_torn_message_whose_length_ends_at_a_later_header_is_not_merged(make):
    torn = make.message(b"a" * 100, 10)[:-44]
    data = torn + make.message(b"b" * 28, 20) + make.message(b"c", 30) + make.message(b"d", 40)
    rows, faults = read(make.folder({"00000000": data}))
    assert rows == [(2, b"b" * 28), (3, b"c"), (4, b"d")]
    assert faults == [("merged-records", "00000000", 0)]


def test_a_header_without_its_body_does_not_swallow_what_follows(make):
    # Written so by a writer that was killed between the two copies into its pre-commit buffer.
    header = make.message(b"x" * 34, 10)[:16]
    data = make.message(b"first", 9) + header + make.message(b"b", 20) + make.message(b"c", 30)
    rows, faults = read(make.folder({"00000000": data}))
    assert rows == [(1, b"first"), (3, b"b"), (4, b"c")]
    assert faults == [("merged-records", "00000000", 21)]


def test_a_payload_made_of_older_frames_is_given_whole(make):
    inner = make.message(b"inner one", 1) + make.message(b"inner two", 2)
    for before, after in ((b"", b""), (b"head", b""), (b"", b"tail"), (b"head", b"tail")):
        payload = before + inner + after
        data = make.message(payload, 10) + make.message(b"next", 11) + make.message(payload, 12)
        rows, faults = read(make.folder({"00000000": data}))
        assert rows == [(1, payload), (2, b"next"), (3, payload)]
        assert faults == []


@pytest.mark.parametrize("following", [0, 1, 2])
def test_an_lz4_payload_that_holds_newer_frames_is_whole_because_it_decodes(make, following):
    block = pytest.importorskip("lz4.block")
    frames = make.stored(b"inner", 9, 99, make.LZ4) + make.stored(b"more inner", 12, 100, make.LZ4)
    data, expected = b"", []
    for marker, payload in enumerate([b"x" * 7 + frames, b"one", b"two"][: following + 1], 1):
        data += make.stored(block.compress(payload, store_size=False), len(payload), 10 + marker, make.LZ4)
        expected.append((marker, payload))
    rows, faults = read(make.folder({"metastore": make.metastore(magic=make.LZ4), "00000000": data}))
    assert rows == expected
    assert faults == []


def test_an_lz4_message_that_was_torn_is_not_merged_with_the_one_behind_it(make):
    block = pytest.importorskip("lz4.block")
    stored = block.compress(bytes(range(100)), store_size=False)
    behind = block.compress(b"behind", store_size=False)
    missing = 20 + len(behind)
    torn = make.stored(stored, 100, 10, make.LZ4)[:-missing]
    for more in (b"", make.stored(block.compress(b"c", store_size=False), 1, 30, make.LZ4)):
        data = torn + make.stored(behind, 6, 20, make.LZ4) + more
        rows, faults = read(make.folder({"metastore": make.metastore(magic=make.LZ4), "00000000": data}))
        assert rows == [(2, b"behind"), (3, b"c")][: 2 if more else 1]
        assert faults == [("merged-records", "00000000", 0)]


def test_a_payload_that_quotes_a_cut_frame_is_given_whole_where_it_is_the_last_too(make):
    payload = b"quote: " + make.message(b"inner", 1)[:-2]
    rows, faults = read(make.folder({"00000000": make.message(b"one", 9) + make.message(payload, 10)}))
    assert rows == [(1, b"one"), (2, payload)]
    assert faults == []


@pytest.mark.parametrize("written", range(1, 60))
def test_two_torn_messages_one_behind_the_other_give_none(make, written):
    whole = make.message(b"first", 9)
    torn = make.message(b"a" * 100, 10)[:-30]
    behind = make.message(b"b" * 44, 20)[:written]
    rows, _ = read(make.folder({"00000000": whole + torn + behind}))
    assert rows == [(1, b"first")]


def test_frames_in_a_torn_payload_are_not_given(make):
    inner = make.message(b"inner one", 1) + make.message(b"inner two", 2)
    whole = make.message(b"first", 9)
    for cut in range(1, 29):
        torn = make.message(inner + b"t" * 29, 10)[:-cut]
        rows, faults = read(make.folder({"00000000": whole + torn}))
        assert rows == [(1, b"first")]
        assert faults == [("torn-record", "00000000", 21)]
        rows, faults = read(make.folder({"00000000": whole + torn + make.message(b"behind" * 9, 11)}))
        assert rows == [(1, b"first"), (3, b"behind" * 9)]


@pytest.mark.parametrize("length", [0, 5, 40, 100, 2000])
def test_messages_that_waited_in_a_buffer_are_given_behind_a_header_that_is_alone(make, length):
    """A writer was killed behind a header; another one wrote out what had waited since before."""
    whole = make.message(b"first", 9)
    orphan = make.message(b"x" * length, 10)[:16]
    waited = [make.message(b"waited %d" % i * (i + 1), 5) for i in range(6)]
    rows, faults = read(make.folder({"00000000": whole + orphan + b"".join(waited)}))
    if length == 0:  # a message without payload, as far as anybody can tell
        assert rows == [(1, b"first"), (2, b""), *((i + 3, b"waited %d" % i * (i + 1)) for i in range(6))]
    else:
        assert rows == [(1, b"first"), *((i + 3, b"waited %d" % i * (i + 1)) for i in range(6))]
        assert [fault[1:] for fault in faults] == [("00000000", len(whole))]


def test_the_magic_in_a_damaged_payload_does_not_stop_the_search_for_the_next_message(make):
    magic = make.message(b"")[:4]
    torn = make.message((b"ab" + magic) * 30, 10)[:-7]
    rows, faults = read(make.folder({"00000000": torn + make.message(b"next" * 20, 11)}))
    assert rows == [(2, b"next" * 20)]
    assert faults == [("torn-record", "00000000", 0)]


def test_a_shortened_length_is_told_by_the_index(make):
    frames = [make.message(p) for p in numbered(4, 64)]
    data = bytearray(b"".join(frames))
    data[80 + 12] = 32  # message 2 says 32 bytes
    good = make.index(0, 80, 160, 240)
    rows, faults = read(make.folder({"00000000": bytes(data), "00000000.idx": good}))
    assert [marker for marker, _ in rows] == [1, 3, 4]
    assert faults == [("damaged-bytes", "00000000", 80)]


@pytest.mark.parametrize("missing", [1, 15])
def test_the_rest_of_a_message_whose_length_was_shortened_takes_no_number(make, missing):
    damaged = bytearray(make.message(b"b" * 40, 20))
    damaged[12] -= missing
    data = make.message(b"first", 9) + bytes(damaged) + make.message(b"c", 30)
    rows, faults = read(make.folder({"00000000": data}))
    assert rows == [(1, b"first"), (2, b"b" * (40 - missing)), (3, b"c")]
    assert faults == [("damaged-bytes", "00000000", 21 + 56 - missing)]


def test_a_stretch_that_may_have_been_a_message_takes_a_number(make):
    damaged = bytearray(make.message(b"b" * 40, 20))
    damaged[12] -= 16
    data = bytes(damaged) + make.message(b"c", 30)
    rows, _ = read(make.folder({"00000000": data}))
    assert rows == [(1, b"b" * 24), (3, b"c")]


def test_a_lengthened_length_that_ends_at_a_later_header_is_told_by_the_one_inside(make):
    payloads = [b"a" * 64, b"b" * 16, b"c" * 8]
    data = bytearray(b"".join(make.message(p) for p in payloads))
    data[12] ^= 32  # 64 becomes 96: up to the header of the third
    rows, faults = read(make.folder({"00000000": bytes(data)}))
    assert rows == [(2, payloads[1]), (3, payloads[2])]
    assert faults == [("merged-records", "00000000", 0)]


def test_several_damaged_places_are_each_reported_and_passed(make):
    frames = [make.message(p, 100 + i) for i, p in enumerate(numbered(12))]
    data = bytearray(b"".join(frames))
    for i in (0, 4, 8):
        data[i * 56 : i * 56 + 20] = b"\xaa" * 20
    rows, faults = read(make.folder({"00000000": bytes(data)}))
    assert [marker for marker, _ in rows] == [2, 3, 4, 6, 7, 8, 10, 11, 12]
    assert faults == [("damaged-bytes", "00000000", i * 56) for i in (0, 4, 8)]


def test_numbers_behind_a_stretch_with_several_messages_come_from_the_index(make):
    frames = [make.message(p) for p in numbered(6)]
    data = bytearray(b"".join(frames))
    data[56 : 56 * 3 + 20] = b"\xaa" * (56 * 2 + 20)
    files = {"00000000": bytes(data)}
    assert [m for m, _ in read(make.folder(files))[0]] == [1, 3, 4]
    files["00000000.idx"] = make.index(*range(0, 56 * 6, 56))
    assert [m for m, _ in read(make.folder(files))[0]] == [1, 5, 6]


def test_a_message_between_two_damaged_places_is_found_by_the_index(make):
    frames = [make.message(p) for p in numbered(4)]
    data = bytearray(b"".join(frames))
    data[56:60] = data[168:172] = b"\xaa" * 4
    files = {"00000000": bytes(data), "00000000.idx": make.index(0, 56, 112, 168)}
    rows, faults = read(make.folder(files))
    assert [m for m, _ in rows] == [1, 3]
    assert [f[2] for f in faults] == [56, 168]


def test_zeros_in_the_middle_and_at_the_end_are_told_from_other_bytes(make):
    data = make.message(b"one") + bytes(100) + make.message(b"two") + make.message(b"three") + bytes(5)
    rows, faults = read(make.folder({"00000000": data}))
    assert rows == [(1, b"one"), (3, b"two"), (4, b"three")]
    assert faults == [("zero-bytes", "00000000", 19), ("zero-bytes", "00000000", 159)]


def test_a_journal_of_version_1_is_read_on_where_a_newer_writer_went_on(make):
    old = b"".join(make.message(p, magic=0) for p in numbered(6))
    new = b"".join(make.message(p) for p in (b"x", b"y"))
    rows, faults = read(make.folder({"00000000": old + new}))
    assert rows == list(enumerate([*numbered(6), b"x", b"y"], 1))
    assert faults == [], "nothing is lost; verify says what is odd"


def test_a_sparse_file_of_zeros_is_passed_quickly(make):
    rows, faults = read(make.folder({"00000000": make.message(b"one") + bytes(20 << 20)}))
    assert rows == [(1, b"one")]
    assert faults == [("zero-bytes", "00000000", 19)]


def test_a_message_larger_than_the_window_is_read(make):
    big = bytes(range(256)) * 8000
    data = make.message(b"one") + make.message(big) + make.message(b"two")
    rows, faults = read(make.folder({"00000000": data}))
    assert rows == [(1, b"one"), (2, big), (3, b"two")]
    assert faults == []


def test_missing_and_empty_segments_are_reported_where_they_would_be(make):
    files = {f"{log:08x}": make.message(bytes([log])) for log in (3, 4, 8)} | {"00000009": b"", "0000000a": b""}
    storage = make.folder(files | {"metastore": make.metastore(10)})
    rows, faults = read(storage)
    assert rows == [(1, b"\3"), (1, b"\4"), (1, b"\x08")]
    assert faults == [("missing-segments", "00000005", None), ("empty-closed-segment", "00000009", 0)]


def test_the_framing_is_found_without_a_metastore(make):
    pytest.importorskip("lz4.block")
    import lz4.block

    block = lz4.block.compress(b"hello" * 50, store_size=False)
    files = {"00000000": make.stored(block, 250, magic=make.LZ4) * 3, "metastore": b""}
    rows, faults = read(make.folder(files))
    assert rows == [(i, b"hello" * 50) for i in (1, 2, 3)]
    assert faults == []


def test_a_payload_that_does_not_decode_is_left_out_and_reported(make):
    lz4 = pytest.importorskip("lz4.block")
    good = lz4.compress(b"hello" * 50, store_size=False)
    frames = [make.stored(good, 250, magic=make.LZ4), make.stored(b"\xff" * 30, 250, magic=make.LZ4)]
    frames += [make.stored(good, 251, magic=make.LZ4), make.stored(good, 250, magic=make.LZ4)]
    storage = make.folder({"00000000": b"".join(frames), "metastore": make.metastore(magic=make.LZ4)})
    rows, faults = read(storage)
    assert rows == [(1, b"hello" * 50), (4, b"hello" * 50)]
    at = len(frames[0]), len(frames[0] + frames[1])
    assert faults == [("undecodable-payload", "00000000", offset) for offset in at]
    report = JlogStore.open(storage, {}).verify()
    assert [f.offset for f in report.faults if f.code == "undecodable-payload"] == list(at)
    assert report.record_count == 2


def test_decoded_batches_stay_within_their_bound(make):
    lz4 = pytest.importorskip("lz4.block")
    payload = bytes(100_000)
    frame = make.stored(lz4.compress(payload, store_size=False), len(payload), magic=make.LZ4)
    storage = make.folder({"00000000": frame * 30, "metastore": make.metastore(magic=make.LZ4)})
    store = JlogStore.open(storage, {})
    batches = list(store.scan("journal", columns=["payload", "marker"], max_bytes=250_000))
    assert [b.row_count for b in batches] == [2] * 15
    assert [m for b in batches for m in b.to_list("marker")] == list(range(1, 31))
    assert all(p == payload for b in batches for p in b.to_list("payload"))


def test_without_lz4_metadata_is_read_and_payloads_say_what_to_install(golden, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lz4.block", None)
    store = JlogStore.open(golden("lz4"), {})
    assert sum(b.row_count for b in store.scan("journal", columns=["length", "marker"])) == 40
    with pytest.raises(MissingDependency, match=r"everlog\[lz4\]"):
        list(store.read("journal"))


def test_an_unknown_provider_is_one_fault_and_its_messages_can_be_listed(make):
    magic = 0x15106A07
    storage = make.folder(
        {"00000000": make.stored(b"??", 9, magic=magic) * 3, "metastore": make.metastore(magic=magic)}
    )
    rows, faults = read(storage)
    assert (rows, faults) == ([], [("unknown-compression", "00000000", 0)])
    store = JlogStore.open(storage, {})
    assert [b.to_list("length") for b in store.scan("journal", columns=["length"])] == [[9, 9, 9]]


def test_by_default_damage_raises_after_the_messages_before_it(golden):
    store = JlogStore.open(golden("e_garbage_middle_current"), {})
    got = []

    def take_all():
        for batch in store.scan("journal", columns=["marker"]):
            got.extend(batch.to_list("marker"))

    with pytest.raises(CorruptData, match="00000002 at offset 671") as caught:
        take_all()
    assert caught.value.exit_code == 1
    assert len(got) == 26 + 25 + 4


def test_a_half_written_pre_commit_buffer_gives_its_whole_messages(make):
    one, two = make.message(b"one"), make.message(b"two")
    used = one + two[:16]
    files = {"00000000": make.message(b"zero"), "pre_commit": len(used).to_bytes(4, "little") + used + bytes(50)}
    rows, faults = read(make.folder(files), pre_commit=True)
    assert rows == [(1, b"zero"), (2, b"one")]
    assert faults == [("torn-record", "pre_commit", 23)]
    files["pre_commit"] = (0x7FFF_FFFF).to_bytes(4, "little") + one + two
    rows, faults = read(make.folder(files), pre_commit=True)
    assert rows == [(1, b"zero"), (2, b"one"), (3, b"two")]
    assert faults == []


def test_a_mixed_magic_is_a_note_and_the_rest_are_faults(make):
    old = b"".join(make.message(p, magic=0) for p in numbered(6))
    report = JlogStore.open(make.folder({"00000000": old + make.message(b"x")}), {}).verify()
    kinds = {f.code: f.severity for f in report.faults}
    assert kinds["framing-changes"] is Severity.NOTE
    assert kinds["magic-differs"] is Severity.FAULT
