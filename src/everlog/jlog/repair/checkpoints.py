"""Where checkpoints are set in a repair.

A subscriber must never be moved forward past a message that is there: what can't be told counts as not done.

| checkpoint | goes to |
| --- | --- |
| empty, of a wrong size | the beginning of the journal |
| before the first segment | the beginning of the first one; what was between is gone |
| in a segment that is deleted, for nothing is left of it | the beginning of the next one |
| past the end of its segment | the end of that segment |
| in the segment behind the last one | the end of the last one: there is nothing else that it could have left |
| in a segment that never was | the beginning of the journal |
| behind damage that is cut out | the same message, by its new number |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from everlog.core.files.writable import WritableStorage
from everlog.jlog.format.checkpoints import Checkpoint
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.repair.segments import Renumbering
from everlog.jlog.repair.steps import MoveCheckpoint

AGAIN = "it gets messages again that it may have had"


@dataclass(frozen=True, slots=True)
class CheckpointMoves:
    """The journal as it will be: its segments, in order (never none: the one that is written counts, there or not),
    those that go, and what is known of damaged ones.

    ``checkpoint_rewind`` are the checkpoint files that verify found past the end of a segment that is whole;
    ``count_of`` gives the number of messages that a segment will have."""

    logs: list[int]
    deleted: frozenset[int]
    renumberings: Mapping[int, Renumbering]
    checkpoint_rewind: frozenset[str]
    count_of: Callable[[int], int]

    @property
    def first(self) -> int:
        """The first segment."""
        return self.logs[0]

    @property
    def last(self) -> int:
        """The segment that is written."""
        return self.logs[-1]

    def place(self, checkpoint: Checkpoint) -> tuple[int, int, str] | None:
        """Segment and number for a checkpoint, and what that means to its subscriber; ``None``: it may stay."""
        log, marker = checkpoint.log, checkpoint.marker
        if log is None or marker is None:
            return self.first, 0, f"its place is not known: {AGAIN}"
        if log < self.first:
            return self.first, 0, "nothing that is there; what was before it is gone"
        if log in self.deleted:
            return self.logs[bisect_right(self.logs, log)], 0, "nothing that is there; the rest of its segment is gone"
        if log == self.last + 1:
            return self.last, self.count_of(self.last), f"nothing; it was done with segment {self.last:08x}"
        if log > self.last:
            return self.first, 0, f"no segment {log:08x} ever was, so its place is not known: {AGAIN}"
        return self._place_inside(checkpoint.file, log, marker)

    def _place_inside(self, file: str, log: int, marker: int) -> tuple[int, int, str] | None:
        at = bisect_right(self.logs, log) - 1
        if self.logs[at] != log or marker == 0:
            return None  # readers step over missing segments
        if log in self.renumberings:
            place = self.renumberings[log].place_of(marker)
            repeats = self.renumberings[log].repeats(marker)
            if repeats:
                return log, place, f"how many messages were in the damage is not known: it may get {repeats} again"
            return (log, place, "nothing; it goes on with the same message") if place != marker else None
        if file not in self.checkpoint_rewind:
            return None
        return log, self.count_of(log), "nothing; it goes on behind the last message there"


def move_checkpoints(
    storage: WritableStorage, checkpoints: list[Checkpoint], places: CheckpointMoves
) -> Iterator[MoveCheckpoint]:
    """A step for each checkpoint that can't stay."""
    for checkpoint in checkpoints:
        found = None if checkpoint.error is not None else places.place(checkpoint)
        if found is None:
            continue
        log, marker, meaning = found
        with storage.open(checkpoint.file) as file:
            old, size = file.read_at(0, JlogCheckpoint.size), file.size()
        where = f"{size} bytes" if size != JlogCheckpoint.size else f"{checkpoint.log:08x}:{checkpoint.marker:08x}"
        is_beginning = (log, marker) == (places.first, 0)
        yield MoveCheckpoint(
            file=checkpoint.file,
            before=f"subscriber {checkpoint.name} at {where}",
            after=f"{log:08x}:{marker:08x}" + (", the beginning of the journal" if is_beginning else ""),
            loses="nothing" if meaning.startswith("nothing;") else f"subscriber {checkpoint.name}: {meaning}",
            storage=storage,
            old=old,
            old_size=size,
            new=(log, marker),
        )
