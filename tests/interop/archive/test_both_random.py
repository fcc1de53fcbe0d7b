"""Random turns on one folder: either archive records, extends, cuts, purges and dies; the other one goes on. What must
be there is kept beside it."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from everlog.aeron import archive
from everlog.testing.series import Series
from tests.interop.archive.both_archives import (
    CHANNEL,
    KILOBYTE,
    SEGMENT,
    TERM,
    Row,
    Shape,
    begin,
    contents,
    copied,
    described,
    ours,
    theirs,
    verified,
    write,
)
from tests.interop.archive.java_archive import MIXED, SMALL, ArchiveOptions, JavaArchive, Messages

Start = Callable[..., JavaArchive]
SECONDS = float(os.environ.get("EVERLOG_INTEROP_SECONDS") or 20 * Series.from_environment().effort)
SEED = int(os.environ.get("EVERLOG_INTEROP_SEED") or random.randrange(1 << 32))
TURNS = 12
"""Of one folder; then comes another one."""


@dataclass
class Kept:
    """What is known of a recording: ``rows`` of whole messages; ``detached`` those that an attach brings back.
    ``is_odd``: ArchiveTool's verify does not like what the real archive itself leaves, one that was cut where a segment
    begins, or that it recovered without writing the entry's checksum anew. Going on with it mends both."""

    messages: Messages
    start: int
    rows: list[Row] = field(default_factory=list)
    detached: list[Row] = field(default_factory=list)
    is_active: bool = False
    is_odd: bool = False

    @property
    def stop(self) -> int:
        return int(self.rows[-1][0]) if self.rows else self.start

    @property
    def base(self) -> int:
        """Where its first segment begins."""
        return self.start - self.start % TERM

    def next(self, count: int) -> Messages:
        last = (self.detached + self.rows)[-1:]
        first = (last[0][3] & 0xFFFFFFFF) + 1 if last else self.messages.first
        return replace(self.messages, first=first, count=count)


class Side(Protocol):
    """An archive that is open, whichever it is."""

    def new(self, shape: Shape) -> int: ...
    def extend(self, recording_id: int, messages: Messages) -> None: ...
    def truncate(self, recording_id: int, position: int) -> None: ...
    def purge_segments(self, recording_id: int, position: int) -> None: ...
    def detach(self, recording_id: int, position: int) -> None: ...
    def attach(self, recording_id: int) -> None: ...
    def delete_detached(self, recording_id: int) -> None: ...
    def purge(self, recording_id: int) -> None: ...
    def extend_and_die(self, recording_id: int, messages: Messages) -> Path: ...


class Ours:
    def __init__(self, own: archive.Archive, rng: random.Random) -> None:
        self.own = own
        self.rng = rng

    def _write(self, recorder: archive.Recorder, messages: Messages) -> None:
        write(recorder, messages, self.rng.choice(["one", "many", "offer"]))

    def new(self, shape: Shape) -> int:
        with begin(self.own, shape) as recorder:
            assert shape.messages is not None
            self._write(recorder, shape.messages)
        return recorder.recording_id

    def extend(self, recording_id: int, messages: Messages) -> None:
        with self.own.extend_recording(recording_id) as recorder:
            self._write(recorder, messages)

    def truncate(self, recording_id: int, position: int) -> None:
        self.own.truncate_recording(recording_id, position)

    def purge_segments(self, recording_id: int, position: int) -> None:
        self.own.purge_segments(recording_id, position)

    def detach(self, recording_id: int, position: int) -> None:
        self.own.detach_segments(recording_id, position)

    def attach(self, recording_id: int) -> None:
        self.own.attach_segments(recording_id)

    def delete_detached(self, recording_id: int) -> None:
        self.own.delete_detached_segments(recording_id)

    def purge(self, recording_id: int) -> None:
        self.own.purge_recording(recording_id)

    def extend_and_die(self, recording_id: int, messages: Messages) -> Path:
        """What a kill leaves is what is in the folder while it is open."""
        with self.own.extend_recording(recording_id) as recorder:
            self._write(recorder, messages)
            folder = Path(self.own.path)
            return copied(folder, f"{folder.name}+")


class Java:
    def __init__(self, java: JavaArchive) -> None:
        self.java = java
        self.truncate = java.truncate
        self.purge_segments = java.purge_segments
        self.detach = java.detach
        self.attach = java.attach
        self.delete_detached = java.delete_detached
        self.purge = java.purge
        self.extend = java.extend

    def new(self, shape: Shape) -> int:
        stream_options = dict(shape.stream_options)
        initial, position = stream_options["initial_term_id"], stream_options["position"]
        where = f"init-term-id={initial}|term-id={initial + position // TERM}|term-offset={position % TERM}"
        return self.java.record(f"{CHANNEL}|{where}", shape.stream_id, shape.messages).recording_id

    def extend_and_die(self, recording_id: int, messages: Messages) -> Path:
        self.java.extend(recording_id, messages, stop=False)
        self.java.kill()
        return self.java.folder


@dataclass
class World:
    start: Start
    jar: Path
    folder: Path
    rng: random.Random
    checksum: str | None
    recordings: dict[int, Kept] = field(default_factory=dict)
    was_killed: bool = False
    is_torn: bool = False
    done: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, *, by_java: bool) -> Iterator[Side]:
        was_killed, self.was_killed = self.was_killed, False
        if by_java:
            options = ArchiveOptions(checksum=self.checksum, forgets_owner=was_killed)
            java = self.start(self.folder, options)
            for kept in self.recordings.values():
                kept.is_odd |= kept.is_active and self.checksum is not None
                kept.is_active = False
            self._check(lambda recording_id: theirs(java, recording_id))
            assert java.recordings() == described(self.folder)
            yield Java(java)
            if not self.was_killed:
                assert java.errors() == []
                java.close()
        else:
            timeout_s = 0.0 if was_killed else 10.0
            checksum = self.checksum or "none"
            opening = {"segment_length": SEGMENT, "checksum": checksum, "liveness_timeout_s": timeout_s}
            with archive.create(self.folder, exist_ok=True, **opening) as own:
                assert bool(own.recovered) == was_killed
                assert described(own) == described(self.folder)
                for kept in self.recordings.values():
                    kept.is_active = False
                yield Ours(own, self.rng)

    def _check(self, read: Callable[[int], list[Row]]) -> None:
        for recording_id, kept in self.recordings.items():
            rows = read(recording_id)
            assert rows == kept.rows, (recording_id, self.done)

    def turn(self) -> None:
        by_java = self.rng.random() < 0.5 and bool(self.recordings) and not self.is_torn
        self.is_torn = False
        before = self.folder
        with self.open(by_java=by_java) as side:
            for _ in range(self.rng.randint(1, 4)):
                self.operate(side, "java" if by_java else "own")
                if self.was_killed:
                    break
        if before != self.folder:
            shutil.rmtree(before)

    def operate(self, side: Side, name: str) -> None:
        rng = self.rng
        kinds = ["new", "extend", "extend", "extend", "truncate", "purge_segments", "detach", "attach", "purge", "die"]
        kind = rng.choice(kinds) if len(self.recordings) > 1 else "new"
        recording_id = rng.choice(list(self.recordings)) if kind != "new" else -1
        self.done.append(f"{name} {kind} {recording_id}")
        if kind == "new":
            self.make(side)
            return
        kept = self.recordings[recording_id]
        if kind == "purge":
            if len(self.recordings) > 3:
                side.purge(recording_id)
                del self.recordings[recording_id]
        elif kind in ("extend", "die"):
            self.extend(side, recording_id, kept, dies=kind == "die")
        elif kind == "attach":
            side.attach(recording_id)
            kept.rows, kept.detached = kept.detached + kept.rows, []
            self.settle(recording_id, kept)
        elif kind == "truncate":
            self.truncate(side, recording_id, kept)
        else:
            self.cut_front(side, recording_id, kept, kind)

    def make(self, side: Side) -> None:
        rng = self.rng
        position = rng.choice([0, 0, 96, SEGMENT, 3 * TERM + 4096, 5 * TERM - 64])
        sizes = rng.choice([SMALL, MIXED, KILOBYTE])
        messages = Messages(seed=rng.randrange(1, 1000), sizes=sizes, count=rng.randint(1, 300))
        stream_options = (("initial_term_id", rng.randrange(-5, 100)), ("position", position))
        shape = Shape(stream_id=rng.randint(5, 8), messages=messages, stream_options=stream_options)
        recording_id = side.new(shape)
        assert recording_id not in self.recordings
        kept = self.recordings[recording_id] = Kept(messages, position)
        self.appended(recording_id, kept, messages)

    def extend(self, side: Side, recording_id: int, kept: Kept, *, dies: bool) -> None:
        messages = kept.next(self.rng.randint(1, 200))
        if dies:
            self.folder = side.extend_and_die(recording_id, messages)
            self.was_killed = True
        else:
            side.extend(recording_id, messages)
        kept.is_odd, kept.is_active = False, dies
        self.appended(recording_id, kept, messages)
        if dies and self.rng.random() < 0.4:
            self.tear(recording_id, kept)

    def tear(self, recording_id: int, kept: Kept) -> None:
        """The beginning of another message, which is for us to take away: the real archive would leave it."""
        at = kept.stop - kept.base
        name = f"{recording_id}-{kept.base + at // SEGMENT * SEGMENT}.rec"
        torn = (-1408).to_bytes(4, "little", signed=True) + self.rng.randbytes(self.rng.randrange(900))
        with (self.folder / name).open("r+b") as file:
            file.seek(at % SEGMENT)
            file.write(torn[: SEGMENT - at % SEGMENT])
        self.done.append(f"torn {name} at {at % SEGMENT}")
        self.is_torn = True

    def appended(self, recording_id: int, kept: Kept, messages: Messages) -> None:
        """Positions are as we read them; what they hold is known."""
        rows = ours(self.folder, recording_id)
        assert rows[: len(kept.rows)] == kept.rows, self.done
        assert contents(rows[len(kept.rows) :]) == messages.rows(), self.done
        kept.rows = rows

    def truncate(self, side: Side, recording_id: int, kept: Kept) -> None:
        if not kept.rows:
            return
        keep = self.rng.randrange(len(kept.rows))
        position = kept.rows[keep - 1][0] if keep else kept.start
        side.truncate(recording_id, position)
        kept.rows = kept.rows[:keep]
        kept.is_odd = position % TERM == 0 and (position - kept.base) % SEGMENT == 0 and keep > 0
        if not keep:
            kept.detached = []

    def cut_front(self, side: Side, recording_id: int, kept: Kept, kind: str) -> None:
        starts = range(kept.base + SEGMENT, kept.stop + 1, SEGMENT)
        if not starts:
            return
        position = self.rng.choice(starts)
        getattr(side, kind)(recording_id, position)
        gone = [row for row in kept.rows if row[0] <= position]
        kept.rows = kept.rows[len(gone) :]
        kept.detached = kept.detached + gone if kind == "detach" else []
        kept.start = position
        self.settle(recording_id, kept)

    def settle(self, recording_id: int, kept: Kept) -> None:
        (found,) = [d for d in described(self.folder) if d.recording_id == recording_id]
        kept.start = found.start_position
        assert found.stop_position == max(kept.stop, kept.start), self.done

    def finish(self) -> None:
        with self.open(by_java=False) as side:
            for recording_id, kept in self.recordings.items():
                side.delete_detached(recording_id)
                kept.detached = []
                if kept.is_odd or not kept.rows:
                    self.extend(side, recording_id, kept, dies=False)
        verified(self.jar, self.folder, self.checksum)
        with self.open(by_java=True):
            self._check(lambda recording_id: ours(self.folder, recording_id))


def test_random_turns_of_both_leave_what_was_recorded(start_archive: Start, aeron_jar: Path, tmp_path: Path) -> None:
    print(f"EVERLOG_INTEROP_SEED={SEED}")
    rng, end, turns = random.Random(SEED), time.monotonic() + SECONDS, 0
    while time.monotonic() < end or turns == 0:
        checksum = rng.choice([None, "crc32", "crc32c"])
        world = World(start_archive, aeron_jar, tmp_path / f"archive-{turns}", rng, checksum)
        for _ in range(TURNS):
            world.turn()
            turns += 1
            if time.monotonic() > end:
                break
        world.finish()
    print(f"{turns} turns")
