"""What is written here, the original's store package opens and continues, and the other way round."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tools import aeron_java

from everlog import nats_streaming, open_store
from everlog.errors import StoreUnavailable
from everlog.kernel.crc32 import CASTAGNOLI
from everlog.testing.storage.crashing import CrashingStorage
from tests.interop.nats_streaming.go_store import GoStore, Missing, program

pytestmark = pytest.mark.peer


@pytest.fixture(scope="session")
def go() -> GoStore:
    try:
        with aeron_java.alone():
            return GoStore(program(download=aeron_java.may_download()))
    except Missing as missing:
        pytest.skip(str(missing))


def payload(number: int) -> bytes:
    return b"message %d " % number * (number % 9)


def ours(path: Path, **options: Any) -> dict[int, bytes]:
    with open_store(path, **options) as store:
        assert store.verify().faults == []
        return {record.fields["sequence"]: record.payload for record in store.read("foo")}


@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"slice_max_msgs": 7}, ["-file_slice_max_msgs", "7"]),
        ({"slice_max_bytes": 3000}, ["-file_slice_max_bytes", "3000"]),
        ({"crc_poly": CASTAGNOLI}, ["-file_crc_poly", str(CASTAGNOLI)]),
    ],
    ids=["plain", "count", "bytes", "polynomial"],
)
def test_the_original_delivers_all_that_was_written(
    go: GoStore, tmp_path: Path, options: dict[str, Any], flags: list[str], durability: str
) -> None:
    path = tmp_path / "store"
    with nats_streaming.open_channel(path, "foo", cluster_id="ours", durability=durability, **options) as writer:
        for number in range(1, 21):
            writer.append(payload(number))
        writer.append_many([payload(number) for number in range(21, 101)])
        found = (writer.first_sequence, writer.last_sequence, writer.message_count, writer.byte_count)
    read = go.read(path, "foo", *flags)
    assert read.messages == {number: payload(number) for number in range(1, 101)}
    assert (read.first, read.last, read.count, read.byte_count) == found
    assert (read.cluster_id, read.subjects) == ("ours", {"foo"})
    assert read.times_ns == sorted(read.times_ns)


def test_both_write_the_same_store_in_turns(go: GoStore, tmp_path: Path) -> None:
    path, expected = tmp_path / "store", dict[int, bytes]()
    flags = ["-file_slice_max_msgs", "5"]
    for _ in range(4):
        go.run(*flags, "append", path, "foo", "3")
        expected |= {last: b"go %d" % last for last in range(len(expected) + 1, len(expected) + 4)}
        with nats_streaming.open_channel(path, "foo", slice_max_msgs=5) as writer:
            for number in range(4):
                expected[writer.append(b"ours %d" % number)] = b"ours %d" % number
        assert go.read(path, "foo", *flags).messages == expected == ours(path)
    assert sorted(file.name for file in path.glob("foo/*.dat")) == sorted(
        ["subs.dat", *(f"msgs.{number}.dat" for number in range(1, 7))]
    )


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"max_msgs": 8, "slice_max_msgs": 3}, ["-max_msgs", "8", "-file_slice_max_msgs", "3"]),
        ({"max_bytes": 900, "slice_max_msgs": 3}, ["-max_bytes", "900", "-file_slice_max_msgs", "3"]),
        ({"max_msgs": 10, "slice_max_bytes": 0}, ["-max_msgs", "10", "-file_slice_max_bytes", "0"]),
    ],
    ids=["count", "bytes", "derived"],
)
def test_limits_leave_the_slices_that_the_original_leaves(
    go: GoStore, tmp_path: Path, options: dict[str, Any], flags: list[str]
) -> None:
    """The same messages, one by one, through both."""
    theirs, path = tmp_path / "theirs", tmp_path / "ours"
    options = {"max_bytes": 0} | options  # the program's limits are those that its flags name
    for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        go.run(*flags, "append", theirs, "foo", str(count))
        with nats_streaming.open_channel(path, "foo", **options) as writer:
            for _ in range(count):
                writer.append(b"go %d" % (writer.last_sequence + 1))
            found = (writer.first_sequence, writer.last_sequence, writer.message_count, writer.byte_count)
        read = go.read(theirs, "foo", *flags)
        assert found == (read.first, read.last, read.count, read.byte_count)
        files = [sorted(file.name for file in (folder / "foo").iterdir()) for folder in (theirs, path)]
        assert files[0] == files[1]
        sizes = [[(folder / "foo" / name).stat().st_size for name in files[0]] for folder in (theirs, path)]
        assert sizes[0] == sizes[1]
    assert read.first > 1


def test_the_original_opens_what_a_killed_writer_leaves_with_all_acknowledged_messages(
    go: GoStore, tmp_path: Path
) -> None:
    killed: list[tuple[CrashingStorage, int]] = []
    storage, done = CrashingStorage(), [0]

    def note(what: str) -> None:
        if what != "half a write":  # of data without index: there the original refuses to start
            killed.append((storage.kill(), done[0]))

    with nats_streaming.open_channel(storage, "foo", slice_max_msgs=4) as writer:
        storage.after_each = note
        for number in range(1, 11):
            done[0] = writer.append(payload(number)) if number % 3 else writer.append_many([payload(number)])
        storage.after_each = None
    for number, (left, acknowledged) in enumerate(random.Random(5).sample(killed, 12)):
        path = tmp_path / str(number)
        for name in left.names():
            for file in [f"{name}/{inside}" for inside in left.names(name)] if name == "foo" else [name]:
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                (path / file).write_bytes(left.read_all(file))
        found = go.read(path, "foo", "-file_slice_max_msgs", "4").messages
        assert list(found) == list(range(1, len(found) + 1))
        assert len(found) >= acknowledged
        assert all(found[sequence] == payload(sequence) for sequence in found)


def test_each_keeps_the_other_out_by_the_lock(go: GoStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with nats_streaming.open_channel(path, "foo"):
        assert go.run("lock", path) == ["false"]
    holder = go.start("lock", path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "true\n"
    with pytest.raises(StoreUnavailable, match=r"\.rootdir\.lck"):
        nats_streaming.open_channel(path, "foo")
    holder.communicate()
    nats_streaming.open_channel(path, "foo").close()


def test_a_server_that_takes_no_lock_keeps_us_out_while_it_runs(go: GoStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    nats_streaming.open_channel(path, "foo").close()
    holder = go.start("hold", path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(StoreUnavailable, match=r"clients\.dat open for writing"):
        nats_streaming.open_channel(path, "foo")
    holder.communicate()
    nats_streaming.open_channel(path, "foo").close()
