"""Messages whose payload quotes messages that are not older, as those of a machine whose clock is ahead: read,
followed, appended to, repaired."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalStorage, ReadableFile
from everlog.core.files.writable import LocalWritableFile
from everlog.core.report import Fault
from everlog.jlog import Address, Subscriber, Writer, add_subscriber
from everlog.jlog.following import JournalFollower
from everlog.jlog.repair.planning import plan_repair
from everlog.jlog.store import JlogStore
from everlog.testing.storage.crashing import CrashingStorage

FIRST, OUTER, NEXT, AHEAD = 1_800_000_000, 1_800_000_001, 1_800_000_002, 1_800_000_060


class Shapes:
    """Payloads that quote messages, by what they quote; ``frame`` makes a message as the journal has it."""

    def __init__(self, make: Any, provider: str) -> None:
        self._make = make
        self.magic = {"plain": make.PLAIN, "null": make.NULL, "lz4": make.LZ4}[provider]
        self._block: Any = pytest.importorskip("lz4.block") if provider == "lz4" else None

    def frame(self, payload: bytes, time: int) -> bytes:
        if self.magic == self._make.PLAIN:
            return self._make.message(payload, time)
        stored = payload if self._block is None else self._block.compress(payload, store_size=False)
        return self._make.stored(stored, len(payload), time, self.magic)

    def payload(self, shape: str, time: int = AHEAD) -> bytes:
        one, two = self.frame(b"quoted", time), self.frame(b"quoted, too", time)
        return {
            "one": one,
            "several": one + two + one,
            "at the end": b"see: " + one + two,
            "in the middle": b"see: " + one + two + b" and so on",
            "cut": b"see: " + one + two[:-3],
            "a cut one": two[:-3],
        }[shape]

    def files(self, data: bytes, index: tuple[int, ...] | None = None) -> dict[str, bytes]:
        found = {"metastore": self._make.metastore(magic=self.magic), "00000000": data}
        return found if index is None else found | {"00000000.idx": self._make.index(*index)}


SHAPES = ("one", "several", "at the end", "in the middle", "cut", "a cut one")
ENDS_QUOTING = ("one", "several", "at the end")


@pytest.fixture(params=["plain", "null", "lz4"])
def shapes(request: pytest.FixtureRequest, make: Any) -> Shapes:
    return Shapes(make, request.param)


def read(files: dict[str, bytes]) -> tuple[list[tuple[int, bytes]], list[str]]:
    faults: list[Fault] = []
    store = JlogStore.open(CrashingStorage(files), {})
    found = [(r.fields["marker"], r.payload) for r in store.read("journal", on_fault=faults.append)]
    assert [f.code for f in store.verify().faults if f.severity.value == "fault"] == [f.code for f in faults]
    assert bool(faults) or plan_repair(CrashingStorage(files)).is_empty
    return found, [fault.code for fault in faults]


@pytest.mark.parametrize("shape", SHAPES)
def test_one_behind_which_an_earlier_message_is_written_is_given_whole(shapes: Shapes, shape: str) -> None:
    """Messages are written in the order of their times: one that is later than what follows was not written there."""
    data = shapes.frame(b"first", FIRST) + shapes.frame(shapes.payload(shape), OUTER) + shapes.frame(b"next", NEXT)
    assert read(shapes.files(data)) == ([(1, b"first"), (2, shapes.payload(shape)), (3, b"next")], [])


@pytest.mark.parametrize("shape", ENDS_QUOTING)
@pytest.mark.parametrize("is_last", [False, True])
def test_one_that_the_index_has_whole_is_given_whole(shapes: Shapes, shape: str, is_last: bool) -> None:
    """Whatever the times say: subscribers of the original were given it, and count by it."""
    parts = [shapes.frame(b"first", FIRST), shapes.frame(shapes.payload(shape), OUTER)]
    parts += [] if is_last else [shapes.frame(b"next", AHEAD + 1)]
    offsets = [0, len(parts[0]), len(parts[0] + parts[1])][: len(parts)]
    files = shapes.files(b"".join(parts), (*offsets, 0)) | {"00000001": shapes.frame(b"last", AHEAD + 2)}
    files["metastore"] = bytes([1]) + files["metastore"][1:]
    expected = [(1, b"first"), (2, shapes.payload(shape)), *([] if is_last else [(3, b"next")]), (1, b"last")]
    assert read(files) == (expected, [])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rest", [1, 3, 4, 11, 15])
def test_one_behind_which_a_header_was_torn_is_judged_as_if_it_were_whole(
    shapes: Shapes, shape: str, rest: int
) -> None:
    before = shapes.frame(b"first", FIRST) + shapes.frame(shapes.payload(shape), OUTER)
    behind = shapes.frame(b"next", AHEAD)
    found, codes = read(shapes.files(before + behind[:rest]))
    whole, _ = read(shapes.files(before + behind))
    assert found == whole[:-1]
    assert codes[-1] == "torn-header"


@pytest.mark.parametrize("shape", ["one", "several", "at the end", "in the middle"])
def test_those_of_its_own_time_in_one_that_was_torn_are_not_given(shapes: Shapes, shape: str) -> None:
    """Who passes messages on with their times gives them the time of what they quote."""
    payload = shapes.payload(shape, OUTER) + b"the end"
    before, outer = shapes.frame(b"first", FIRST), shapes.frame(payload, OUTER)
    quoted = [shapes.frame(b"quoted", OUTER), shapes.frame(b"quoted, too", OUTER)]
    for end in range(len(before) + 1, len(before + outer)):
        if (before + outer)[:end].endswith(tuple(quoted)):
            continue  # it was torn right where a quoted one ends: nothing tells
        found, _ = read(shapes.files((before + outer)[:end]))
        assert found == [(1, b"first")], end


# Followed


def local(path: Path, shapes: Shapes) -> Path:
    path.mkdir()
    for name, data in shapes.files(b"").items():
        (path / name).write_bytes(data)
    return path / "00000000"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_subscriber_leaves_the_last_message_until_another_tells_what_it_is(
    tmp_path: Path, shapes: Shapes, shape: str
) -> None:
    segment = local(tmp_path / "j", shapes)
    segment.write_bytes(shapes.frame(b"first", FIRST))
    faults: list[Fault] = []
    with Subscriber(tmp_path / "j", "s", create="beginning", on_fault=faults.append) as subscriber:
        with segment.open("ab") as file:
            file.write(shapes.frame(shapes.payload(shape), OUTER))
        found = [message.payload for message in subscriber]
        assert found in ([b"first"], [b"first", shapes.payload(shape)])
        with segment.open("ab") as file:
            file.write(shapes.frame(b"next", NEXT))
        found += [message.payload for message in subscriber]
    assert found == [b"first", shapes.payload(shape), b"next"]
    assert not faults


@pytest.mark.parametrize("shape", SHAPES)
def test_spark_counts_the_last_message_when_another_tells_what_it_is(
    tmp_path: Path, shapes: Shapes, shape: str
) -> None:
    segment = local(tmp_path / "j", shapes)
    segment.write_bytes(shapes.frame(b"first", FIRST))
    follower = JournalFollower(LocalStorage(str(tmp_path / "j")), {})
    assert follower.poll()["journal"].end == 2
    with segment.open("ab") as file:
        file.write(shapes.frame(shapes.payload(shape), OUTER))
    assert follower.poll()["journal"].end in (2, 3)
    with segment.open("ab") as file:
        file.write(shapes.frame(b"next", NEXT))
    assert follower.poll()["journal"].end == 4


def torn_places(outer: bytes, shapes: Shapes) -> Iterator[int]:
    """Where a message of messages may be cut so that what is there of it looks like messages."""
    quoted = shapes.frame(b"quoted", AHEAD)
    start = outer.index(quoted)
    yield start + len(quoted)
    yield start + len(quoted) + len(quoted) // 2


@pytest.mark.parametrize("shape", ["several", "at the end", "in the middle"])
def test_spark_waits_for_a_message_of_messages_that_is_being_written(
    tmp_path: Path, shapes: Shapes, shape: str
) -> None:
    segment = local(tmp_path / "j", shapes)
    first, outer = shapes.frame(b"first", FIRST), shapes.frame(shapes.payload(shape) + b"the end", OUTER)
    for torn_at in torn_places(outer, shapes):
        segment.write_bytes(first)
        follower = JournalFollower(LocalStorage(str(tmp_path / "j")), {})
        with LocalWritableFile(str(segment), "00000000", 0, 0o640) as file:
            file.lock()
            file.write_at(len(first), outer[:torn_at])
            assert follower.poll()["journal"].end == 2
            file.write_at(len(first) + torn_at, outer[torn_at:])
            file.unlock()
        assert follower.poll()["journal"].end == 3


class Growing(CrashingStorage):
    """A writer goes on with a message while its first half is read."""

    def __init__(self, files: dict[str, bytes], more: bytes) -> None:
        super().__init__(files)
        self.more = more

    def open(self, name: str) -> ReadableFile:
        file = super().open(name)
        if name != "00000000":
            return file
        storage = self

        class Opened:
            def __getattr__(self, key: str) -> Any:
                return getattr(file, key)

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def read_at(self, offset: int, length: int) -> bytes:
                found = file.read_at(offset, length)
                if storage.more and offset:
                    with storage.open_writable(name) as writing:
                        writing.write_at(writing.size(), storage.more)
                    storage.more = b""
                return found

        return Opened()  # type: ignore[return-value]


@pytest.mark.parametrize("behind", [b"", b"next"])
@pytest.mark.parametrize("shape", ["several", "at the end", "in the middle"])
def test_reading_leaves_a_message_of_messages_that_is_being_written(shapes: Shapes, shape: str, behind: bytes) -> None:
    first, outer = shapes.frame(b"first", FIRST), shapes.frame(shapes.payload(shape), OUTER)
    for torn_at in torn_places(outer, shapes):
        more = outer[torn_at:] + (shapes.frame(behind, NEXT) if behind else b"")
        storage = Growing(shapes.files(first + outer[:torn_at]), more)
        store = JlogStore.open(storage, {})
        faults: list[Fault] = []
        assert [r.payload for r in store.read("journal", on_fault=faults.append)] == [b"first"]
        assert not faults
        assert not storage.more


def test_reading_goes_on_behind_a_torn_message_while_others_are_written_there(shapes: Shapes) -> None:
    data = (
        shapes.frame(b"first", FIRST)
        + shapes.frame(random.Random(7).randbytes(5000), OUTER)[:30]
        + shapes.frame(b"next", NEXT)
    )
    storage = Growing(shapes.files(data), shapes.frame(b"one more", NEXT))
    faults: list[Fault] = []
    store = JlogStore.open(storage, {})
    assert [r.payload for r in store.read("journal", on_fault=faults.append)] == [b"first", b"next"]
    assert [fault.code for fault in faults] == ["torn-record"]
    assert not storage.more


def test_the_end_is_before_a_message_of_messages_that_is_being_written(tmp_path: Path, shapes: Shapes) -> None:
    segment = local(tmp_path / "j", shapes)
    first, outer = shapes.frame(b"first", FIRST), shapes.frame(shapes.payload("several") + b"the end", OUTER)
    for number, torn_at in enumerate(torn_places(outer, shapes)):
        segment.write_bytes(first)
        with LocalWritableFile(str(segment), "00000000", 0, 0o640) as file:
            file.lock()
            file.write_at(len(first), outer[:torn_at])
            assert add_subscriber(tmp_path / "j", str(number), at="end") == Address.of(0, 1)
            file.unlock()


# Appended to


@pytest.mark.parametrize("shape", SHAPES)
def test_a_writer_cuts_no_message_that_ends_where_the_segment_does(tmp_path: Path, shapes: Shapes, shape: str) -> None:
    segment = local(tmp_path / "j", shapes)
    before = shapes.frame(b"first", FIRST) + shapes.frame(shapes.payload(shape), OUTER)
    segment.write_bytes(before)
    Subscriber(tmp_path / "j", "s", create="end").close()  # so that a writer reads what is there
    with Writer(tmp_path / "j") as writer:
        writer.append(b"next", NEXT * 10**9)
    assert segment.read_bytes() == before + shapes.frame(b"next", NEXT)
    assert not list((tmp_path / "j").glob("cut.*"))
    assert [payload for _, payload in read(shapes.files(segment.read_bytes()))[0]] == [
        b"first",
        shapes.payload(shape),
        b"next",
    ]
