"""Followers: how far each stream has come, at the cost of what is new, and never half a record."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.aeron.cluster.format.recording_log import encode, read_recording_log
from everlog.core.files.storage import LocalStorage
from everlog.core.following import CutLimit, Follower, StreamExtent
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, StoreUnavailable, UnknownStream, UsageError
from everlog.pipelines.follow.followers import open_follower
from everlog.stores import open_store
from everlog.testing.made import channel as nats_channel

SMALL = {"segment_length": 1 << 16, "durability": "written"}
TERM = {"term_length": 1 << 16, "mtu_length": 1408, "initial_term_id": 7, "session_id": 5}


def follow(path: Path, family: str, **options) -> Follower:
    return open_follower(FoundStore(str(path), family), options)


def payloads(path: Path, follower: Follower, stream: str, start: int, end: int) -> list[bytes]:
    found = []
    with open_store(str(path)) as store:
        for split in follower.splits(stream, start, end):
            for batch in store.scan_split(split, columns=["payload"]):
                found += batch.to_list("payload")
    return found


GOLDEN = [
    ("jlog/basic/log", "jlog", {}),
    ("jlog/e_trunc_bogus_noidx/before", "jlog", {}),
    ("jlog/lz4/log", "jlog", {}),
    ("aeron/archive-basic/archive", "aeron-archive", {}),
    ("aeron/archive-basic/archive-checksum-crc32", "aeron-archive", {}),
    ("aeron/archive-crash/torn-page-plain", "aeron-archive", {}),
    ("aeron/cluster-3node/node0", "aeron-cluster", {}),
    ("nats_streaming/basic_sigterm", "nats-streaming", {}),
    ("nats_streaming/compacted", "nats-streaming", {}),
    ("nats_streaming/encrypted_AES", "nats-streaming", {"encryption_key_env": "EVERLOG_TEST_KEY"}),
]


def stores_below(folder: Path, family: str) -> list[Path]:
    from everlog.discovery import find_stores

    return [Path(store.path) for store in find_stores((str(folder),)) if store.family == family]


@pytest.mark.parametrize(("name", "family", "options"), GOLDEN)
@pytest.mark.parametrize(
    "limit",
    [
        CutLimit(records=3, byte_count=99),
        pytest.param(CutLimit(records=7), marks=pytest.mark.long),
        pytest.param(CutLimit(byte_count=700), marks=pytest.mark.long),
    ],
)
def test_parts_of_a_stream_hold_each_record_once(golden, monkeypatch, name, family, options, limit):
    monkeypatch.setenv("EVERLOG_TEST_KEY", "mykey")
    path = stores_below(golden(name), family)[0]
    follower = follow(path, family, **options)
    with open_store(str(path), family=family, **options) as store:
        for info in store.streams():
            addresses: list[int] = []
            for batch in store.scan(info.name, columns=["address"], on_fault=lambda fault: None):
                addresses += map(store.parse_address, batch.to_list("address"))
            extent = follower.poll()[info.name]
            at, parts = extent.first, []
            while at < extent.end:
                cut = follower.cut(info.name, at, extent.end, limit)
                assert at < cut.address <= extent.end
                part = [a for a in addresses if at <= a < cut.address]
                assert limit.records is None or len(part) <= limit.records
                found = []
                for split in follower.splits(info.name, at, cut.address):
                    for batch in store.scan_split(split, columns=["address"], on_fault=lambda fault: None):
                        found += map(store.parse_address, batch.to_list("address"))
                assert found == part
                parts += part
                at = cut.address
            assert parts == addresses


# A journal


def test_a_message_of_a_journal_counts_once_all_its_bytes_are_there(tmp_path):
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    jlog.create(whole)
    with jlog.Writer(whole) as writer:
        for size in (3, 0, 40, 7):
            writer.append(b"x" * size)
    shutil.copytree(whole, copy)
    data = (whole / "00000000").read_bytes()
    assert len(data) == 4 * 16 + 3 + 40 + 7
    ends = [19, 35, 91, 114]
    (copy / "00000000").write_bytes(b"")
    follower = follow(copy, "jlog")
    for size in range(len(data) + 1):
        with (copy / "00000000").open("r+b") as file:
            file.truncate(size)
            file.seek(0)
            file.write(data[:size])
        anew = follow(copy, "jlog")
        for one in (follower, anew):  # at every size, whether it was followed from the first byte or is looked at first
            assert one.poll()["journal"] == StreamExtent(1, sum(end <= size for end in ends) + 1), size


def test_a_journal_is_followed_over_its_segments(tmp_path):
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=4096)
    follower = follow(path, "jlog")
    rng = random.Random(7)
    written, got, at = [], [], follower.poll()["journal"].first
    with jlog.Writer(path) as writer:
        for number in range(300):
            written.append(b"%d " % number + rng.randbytes(rng.randrange(200)))
            writer.append(written[-1])
            if number % 13 == 0:
                end = follower.poll()["journal"].end
                got += payloads(path, follower, "journal", at, end)
                at = end
                assert got == written
    assert at >> 32 > 3  # several segments


def test_a_segment_that_another_writer_may_still_write_is_not_left(tmp_path):
    """Two writers of the C library that finish segments at the same time can leave one that goes on in an older
    one."""
    path = tmp_path / "journal"
    jlog.create(path)
    with jlog.Writer(path) as writer:
        writer.append(b"one")
    first = (path / "00000000").read_bytes()
    (path / "00000001").write_bytes(first.replace(b"one", b"six"))
    metastore = (path / "metastore").read_bytes()
    (path / "metastore").write_bytes((1).to_bytes(4, "little") + metastore[4:])
    follower = follow(path, "jlog")
    with (path / "00000000").open("ab") as late:
        assert follower.poll()["journal"] == StreamExtent(1, 2)
        late.write(first.replace(b"one", b"two"))
        late.flush()
        assert follower.poll()["journal"] == StreamExtent(1, 3)
    extent = follower.poll()["journal"]
    assert extent == StreamExtent(1, (1 << 32) + 2)
    assert payloads(path, follower, "journal", 1, extent.end) == [b"one", b"two", b"six"]


def test_the_first_segments_of_a_journal_may_go(tmp_path):
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=4096)
    with jlog.Writer(path) as writer:
        writer.append_many([b"x" * 1000] * 20)
        follower = follow(path, "jlog")
        end = follower.poll()["journal"].end
        (path / "00000000").unlink()
        (path / "00000001").unlink()
        writer.append_many([b"y" * 1000] * 5)
    assert follower.poll()["journal"].first == (2 << 32) + 1
    assert payloads(path, follower, "journal", end, follower.poll()["journal"].end) == [b"y" * 1000] * 5


def test_what_waits_in_a_journals_buffer_has_no_lasting_address(tmp_path):
    jlog.create(tmp_path / "journal")
    with pytest.raises(UsageError, match="pre_commit"):
        follow(tmp_path / "journal", "jlog", pre_commit=True)


# An archive


def frames_end(length: int) -> int:
    """Bytes that a message of up to one frame takes: a header of 32 bytes, all aligned to 32."""
    return (32 + length + 31) // 32 * 32


def test_recordings_are_followed_while_they_are_written_and_new_ones_are_found(tmp_path):
    path = tmp_path / "archive"
    follower = None
    rng = random.Random(3)
    with archive.create(path, **SMALL) as writing:
        recorders = [writing.start_recording("aeron:ipc", 1, **TERM)]
        follower = follow(path, "aeron-archive")
        assert follower.poll() == {"0": StreamExtent(0, 0)}
        written: dict[str, list[bytes]] = {}
        got: dict[str, list[bytes]] = {}
        at: dict[str, int] = {}
        for number in range(400):
            if number == 150:
                recorders.append(writing.start_recording("aeron:ipc", 2, **TERM))
            for one, recorder in enumerate(recorders):
                # Some messages are of several fragments.
                written.setdefault(str(one), []).append(b"%d" % number + rng.randbytes(rng.choice((0, 9, 700, 3000))))
                recorder.append(written[str(one)][-1])
            if number % 29 == 0:
                for name, extent in follower.poll().items():
                    start = at.get(name, extent.first)
                    got.setdefault(name, []).extend(payloads(path, follower, name, start, extent.end))
                    at[name] = extent.end
                assert got == written
        assert at["0"] > 3 << 16  # several segments
        recorders[0].stop()
        assert follower.poll()["0"].end == recorders[0].recorded_position


def test_a_message_of_a_recording_counts_once_its_last_fragment_is_there(tmp_path):
    path, copy = tmp_path / "archive", tmp_path / "copy"
    with archive.create(path, **SMALL) as writing:
        recorder = writing.start_recording("aeron:ipc", 1, **TERM)
        shutil.copytree(path, copy)
        ends = [recorder.append(b"\x01" * size) for size in (100, 3000, 1300, 5000, 64)]
    # 3000 bytes are frames of 1376, 1376 and 248 bytes; 5000 three and one of 872.
    sizes = [frames_end(100), 2 * 1408 + frames_end(248), frames_end(1300), 3 * 1408 + frames_end(872), frames_end(64)]
    assert ends == [sum(sizes[: k + 1]) for k in range(5)]
    data = (path / "0-0.rec").read_bytes()
    segment = copy / "0-0.rec"
    segment.write_bytes(bytes(1 << 16))
    follower = follow(copy, "aeron-archive")
    # Written a page at a time: the frame that crosses a page's end is there in part.
    for size in sorted({*range(0, ends[-1], 4096), *ends, *(end + 1408 for end in ends[:-1])}):
        with segment.open("r+b") as file:
            file.write(data[:size])
        expected = max([end for end in ends if end <= size], default=0)
        for one in (follower, follow(copy, "aeron-archive")):
            assert one.poll()["0"] == StreamExtent(0, expected), size


def test_a_purged_recording_begins_later_and_a_deleted_one_was_read_or_not(tmp_path):
    path = tmp_path / "archive"
    with archive.create(path, **SMALL) as writing:
        recorder = writing.start_recording("aeron:ipc", 1, **TERM)
        recorder.append_many([b"x" * 1000] * 200)
        follower = follow(path, "aeron-archive")
        end = follower.poll()["0"].end
        writing.purge_segments(0, 1 << 16)
        assert follower.poll()["0"] == StreamExtent(1 << 16, end)
        recorder.append(b"y")
        assert payloads(path, follower, "0", end, follower.poll()["0"].end) == [b"y"]
        end = recorder.stop()
        writing.purge_recording(0)
        assert "0" not in follower.poll()
        stop = recorder.recorded_position
        assert follower.is_complete("0", stop)
        assert not follower.is_complete("0", stop - 32)
        assert not follower.is_complete("7", 0)


def test_an_address_that_somebody_chose_is_moved_to_the_next_message(tmp_path):
    path = tmp_path / "archive"
    with archive.create(path, **SMALL) as writing:
        recorder = writing.start_recording("aeron:ipc", 1, **TERM)
        ends = [recorder.append(b"x" * size) for size in (10, 3000, 50)]
        follower = follow(path, "aeron-archive")
        extent = follower.poll()["0"]
        aligned = [
            follower.align("0", address, extent) for address in (0, 1, 64, 65, ends[1] - 32, ends[1], ends[2], 10**6)
        ]
        assert aligned == [0, 64, 64, ends[1], ends[1], ends[1], ends[2], ends[2]]


# NATS Streaming


def test_a_message_of_a_channel_counts_once_its_index_entry_is_there(tmp_path):
    channel = nats_channel.Channel(nats_channel.make_store(tmp_path / "store"), "foo")
    channel.append(b"first")
    follower = follow(tmp_path / "store", "nats-streaming")
    assert follower.poll() == {"foo": StreamExtent(1, 2)}
    record, entry = channel.parts(b"second")
    for file, data in ((channel.dat, record), (channel.idx, entry)):
        for k in range(len(data)):
            with file.open("ab") as out:
                out.write(data[k : k + 1])
            is_whole = file is channel.idx and k == len(data) - 1
            assert follower.poll() == {"foo": StreamExtent(1, 3 if is_whole else 2)}, (file.name, k)
    assert payloads(tmp_path / "store", follower, "foo", 1, 3) == [b"first", b"second"]


def test_channels_are_followed_over_slices_and_new_ones_are_found(tmp_path):
    path = nats_channel.make_store(tmp_path / "store")
    channels = [nats_channel.Channel(path, "foo")]
    channels[0].append(b"0")
    follower = follow(path, "nats-streaming")
    written, got, at = {"foo": [b"0"]}, {}, {}
    for number in range(1, 200):
        if number == 60:
            channels.append(nats_channel.Channel(path, "bar", first=1000))
        for channel in channels:
            written.setdefault(channel.name, []).append(b"%d" % number)
            channel.append(b"%d" % number)
            if number % 50 == 0:
                channel.roll()
        if number % 7 == 0:
            for name, extent in follower.poll().items():
                got.setdefault(name, []).extend(payloads(path, follower, name, at.get(name, extent.first), extent.end))
                at[name] = extent.end
            assert got == written
    (path / "foo" / "msgs.1.dat").unlink()
    (path / "foo" / "msgs.1.idx").unlink()
    assert [follower.poll()["foo"].first for _ in range(70)][-1] == 52  # found after some looks
    assert "bar" in follower.poll()
    shutil.rmtree(path / "bar")
    assert list(follower.poll()) == ["foo"]


def test_a_channel_that_was_made_anew_is_read_from_its_first_message(tmp_path):
    path = nats_channel.make_store(tmp_path / "store")
    channel = nats_channel.Channel(path, "foo")
    for number in range(10):
        channel.append(b"%d" % number)
    follower = follow(path, "nats-streaming")
    at = follower.poll()["foo"].end
    shutil.rmtree(path / "foo")
    channel = nats_channel.Channel(path, "foo")
    for number in range(4):
        channel.append(b"new %d" % number)
    extent = follower.poll()["foo"]
    assert extent == StreamExtent(1, 5)
    assert follower.restart(at, extent) == 1


def test_a_node_that_goes_on_with_a_log_of_its_own_has_its_log_anew(golden, tmp_path):
    """As one does that was seeded from a snapshot: the term's entry names another recording, from position 0."""
    node = tmp_path / "node0"
    shutil.copytree(next(golden("aeron/cluster-3node/node0").iterdir()), node)
    mark = node / "archive" / "archive-mark.dat"
    data = bytearray(mark.read_bytes())
    data[16:24] = b"\xff" * 8  # its archive was stopped
    mark.write_bytes(data)
    follower = follow(node / "cluster", "aeron-cluster")
    before = follower.poll()["log"]
    assert not before.was_recreated
    with archive.open_archive(node / "archive") as writing, open_store(str(node / "cluster")) as store:
        old = writing.recording(store.folder.log_recording_id)
        first = next(iter(writing.replay(old.recording_id, old.start_position))).payload
        recorder = writing.start_recording(f"aeron:ipc?term-length={old.term_buffer_length}", old.stream_id)
        recorder.append(first)
        log = read_recording_log((node / "cluster" / "recording.log").read_bytes())
        stream_options = {"recording_id": recorder.recording_id, "term_base_log_position": 0, "log_position": -1}
        entry = log.last_term._replace(leadership_term_id=log.last_term.leadership_term_id + 1, **stream_options)
        (node / "cluster" / "recording.log").write_bytes(encode(entry))
        after = follower.poll()["log"]
        assert (after.was_recreated, after.end) == (True, recorder.recorded_position)
        assert after.end < before.end
        assert not follower.poll()["log"].was_recreated
        with pytest.raises(UnknownStream, match="snapshot-99"):
            follower.splits("snapshot-99", 0, 32)


def test_a_store_that_is_gone_is_told(tmp_path):
    path = nats_channel.make_store(tmp_path / "store")
    nats_channel.Channel(path, "foo").append(b"x")
    follower = follow(path, "nats-streaming")
    follower.poll()
    shutil.rmtree(path)
    with pytest.raises(StoreUnavailable):
        follower.poll()


# All that have one of their own, while a thread writes


def test_a_look_costs_what_is_new_and_not_what_is_there(tmp_path, monkeypatch):
    """By the bytes that are read: 2 MB of a journal and of a recording are there, and a look at nothing new reads next
    to nothing."""
    jlog.create(tmp_path / "journal")
    with jlog.Writer(tmp_path / "journal") as writer, archive.create(tmp_path / "archive", **SMALL) as writing:
        recorder = writing.start_recording("aeron:ipc", 1, **TERM)
        for _ in range(20):
            writer.append_many([b"x" * 1000] * 100)
            recorder.append_many([b"x" * 1000] * 100)
        channel = nats_channel.Channel(nats_channel.make_store(tmp_path / "nats"), "foo")
        for _ in range(2000):
            channel.append(b"x" * 100)
        counted = 0
        pread, preadv = os.pread, os.preadv

        def counting_pread(fd, length, offset):
            nonlocal counted
            data = pread(fd, length, offset)
            counted += len(data)
            return data

        def counting_preadv(fd, buffers, offset, *rest):
            nonlocal counted
            done = preadv(fd, buffers, offset, *rest)
            counted += done
            return done

        monkeypatch.setattr(os, "pread", counting_pread)
        monkeypatch.setattr(os, "preadv", counting_preadv)
        for family, folder in (("jlog", "journal"), ("aeron-archive", "archive"), ("nats-streaming", "nats")):
            follower = follow(tmp_path / folder, family)
            follower.poll()
            counted = 0
            before = follower.poll()
            catalog = (1 << 20) if family == "aeron-archive" else 0  # compared whole
            assert counted <= catalog + 4096, family
            writer.append(b"new")
            recorder.append(b"new")
            channel.append(b"new")
            counted = 0
            (stream,) = follower.poll()
            assert follower.poll()[stream].end > before[stream].end
            assert 0 < counted <= 3 * catalog + (600 << 10), family


def test_the_errors_of_a_follower_are_those_of_the_store(tmp_path):
    with pytest.raises(EverlogError):
        follow(tmp_path / "nowhere", "jlog")
    assert LocalStorage(str(tmp_path)).root == str(tmp_path)


@pytest.mark.parametrize("moment", ["while it is opened", "while its catalog is read again"])
def test_a_recording_that_begins_at_that_very_moment_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    from everlog.aeron.archive.folder.archive import ArchiveFolder
    from everlog.aeron.archive.store import ArchiveStore

    real_open, real_reload = ArchiveStore.open, ArchiveFolder.reload
    begun: list[int] = []
    with archive.create(tmp_path / "archive", **SMALL) as writing:
        writing.start_recording("aeron:ipc", 1, **TERM)

        def begin() -> None:
            if len(begun) == expected - 1:
                begun.append(writing.start_recording("aeron:ipc", 2, **TERM).recording_id)

        def opened(*given):
            store = real_open(*given)
            begin()
            return store

        def reloaded(self) -> None:
            real_reload(self)
            begin()

        expected = 1 if moment == "while it is opened" else 0
        monkeypatch.setattr(ArchiveStore, "open", opened)
        follower = follow(tmp_path / "archive", "aeron-archive")
        follower.poll()
        if expected == 0:
            monkeypatch.setattr(ArchiveFolder, "reload", reloaded)
            expected = 1
            writing.start_recording("aeron:ipc", 4, **TERM)  # so that it looks again
            follower.poll()
        assert len(begun) == 1
        assert str(begun[0]) in follower.poll()
