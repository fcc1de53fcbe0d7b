"""Decides where a repair moves checkpoints.

A subscriber must never be moved forward past an existing message: if its progress is unknown, messages count as unread.

| checkpoint | moves to |
| --- | --- |
| empty, of a wrong size | the beginning of the journal |
| before the first segment | the beginning of the first one; what was in between is gone |
| in a segment that is deleted because no message is left | the beginning of the next one |
| past the end of its segment | the end of that segment |
| in the segment after the last one | the end of the last one: it can only have come from there |
| in a segment that never existed | the beginning of the journal |
| after damage that is cut out | the same message, by its new number |
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

AGAIN = "it may get messages again"


@dataclass(frozen=True, slots=True)
class CheckpointMoves:
    """The repaired journal: its segments in order (never empty, because the segment being written counts even if
    missing), the deleted ones, and the renumberings of damaged ones.

    ``checkpoint_rewind`` has the checkpoint files that verify found past the end of an intact segment; ``count_of``
    returns the number of messages that a segment will have."""

    logs: list[int]
    deleted: frozenset[int]
    renumberings: Mapping[int, Renumbering]
    checkpoint_rewind: frozenset[str]
    count_of: Callable[[int], int]

    @property
    def first(self) -> int:
        """The number of the first segment."""
        return self.logs[0]

    @property
    def last(self) -> int:
        """The number of the segment being written."""
        return self.logs[-1]

    def place(self, checkpoint: Checkpoint) -> tuple[int, int, str] | None:
        """Return segment, message number and the effect on the subscriber; ``None`` if the checkpoint stays."""
        log, marker = checkpoint.log, checkpoint.marker
        if log is None or marker is None:
            return self.first, 0, f"its position is unknown: {AGAIN}"
        if log < self.first:
            return self.first, 0, "nothing that still exists; the messages before it are gone"
        if log in self.deleted:
            return (
                self.logs[bisect_right(self.logs, log)],
                0,
                "nothing that still exists; the rest of its segment is gone",
            )
        if log == self.last + 1:
            return self.last, self.count_of(self.last), f"nothing; it had finished segment {self.last:08x}"
        if log > self.last:
            return self.first, 0, f"segment {log:08x} never existed, so its position is unknown: {AGAIN}"
        return self._place_inside(checkpoint.file, log, marker)

    def _place_inside(self, file: str, log: int, marker: int) -> tuple[int, int, str] | None:
        at = bisect_right(self.logs, log) - 1
        if self.logs[at] != log or marker == 0:
            return None  # readers skip missing segments
        if log in self.renumberings:
            place = self.renumberings[log].place_of(marker)
            repeats = self.renumberings[log].repeats(marker)
            if repeats:
                return (
                    log,
                    place,
                    f"it may get {repeats} messages again, because the damage held an unknown number of messages",
                )
            return (log, place, "nothing; it continues with the same message") if place != marker else None
        if file not in self.checkpoint_rewind:
            return None
        return log, self.count_of(log), "nothing; it continues after the last message there"


def move_checkpoints(
    storage: WritableStorage, checkpoints: list[Checkpoint], places: CheckpointMoves
) -> Iterator[MoveCheckpoint]:
    """Yield a step for each checkpoint that must move."""
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
