"""The commit of a batch: what its tasks staged is appended to the target, once, whatever happens meanwhile.

One commit at a time works on a staging folder (the lock of ``commit.lock``); in order it

1. finishes what other commits to this target had begun when they died, from their notes and staged parts;
2. ends here, if the note says that the batch is done;
3. takes up the batch where its note says it was begun: the messages of the last chunk are read back and compared; else
   checks the parts, and that the target takes the longest message: until then nothing is appended;
4. appends chunk by chunk; before each the note says how many messages are there for certain, and the place of the next;
5. notes that the batch is done, and deletes its parts.

A crash before the first note leaves parts that nobody needs, later a note by which step 1 or 3 goes on. A commit of a
process that was taken for dead does no harm: it looks at the note when it gets the lock.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from everlog.core.appending.target import Place, Target, Uncertain
from everlog.core.appending.target_name import TargetName
from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError, StoreUnavailable, UsageError
from everlog.pipelines.append import notes, staging
from everlog.pipelines.append.messages import chunks
from everlog.pipelines.append.notes import Note, Plan
from everlog.pipelines.append.staging import Part

LOCK = "commit.lock"
_POLL_S = 0.05
_log = logging.getLogger("everlog.spark")


class OnUncertain(StrEnum):
    """What becomes of a chunk of which nobody can tell any more how much was appended: the commit fails, all of it is
    appended (at least once), none of it is (at most once)."""

    FAIL = "fail"
    REPEAT = "repeat"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A batch of a query, by which its note knows it again. ``query``: letters, digits and hyphens."""

    query: str
    batch: int


class Committer:
    """Commits to one target. ``target`` names it in notes; ``open_target`` opens it, ``storage`` is where parts and
    notes are. ``wait_s``: so long another commit may take."""

    def __init__(
        self,
        storage: WritableStorage,
        target: TargetName,
        open_target: Callable[[], Target],
        *,
        on_uncertain: OnUncertain = OnUncertain.FAIL,
        wait_s: float = 60.0,
    ) -> None:
        self._storage = storage
        self._name = target
        self._target = target.text
        self._open_target = open_target
        self._on_uncertain = on_uncertain
        self._wait_s = wait_s

    def commit(self, parts: Sequence[Part], transaction: Transaction | None = None) -> int:
        """Append what was staged; the count of messages that this call appended. With a ``transaction`` that is done
        nothing is, and one that was begun is finished; without one they are appended again with each call.

        Raises :class:`UsageError` (a message that is too long, another target than before), :class:`StoreUnavailable`
        (the target, or the staging folder, is somebody else's), :class:`CorruptData`: nothing was appended;
        :class:`WriteFailed`, :class:`Uncertain`: the first messages may have been, and with a transaction the same
        call goes on behind them.
        """
        with self._locked(self._wait_s):
            if transaction is None:
                count = self._append_unnoted(parts)
                self._discard(part.name for part in parts)
                return count
            note = self._note(transaction.query)
            count = 0
            if not parts and note.plan is None and note.done < transaction.batch:
                # The target is not needed; noted it is, so that a batch below it appends nothing.
                note = note.finished(transaction.batch)
                notes.publish(self._storage, note)
            if note.done < transaction.batch:
                with self._open_target() as target:
                    self._finish_others(target, transaction.query)
                    if note.plan is not None:
                        count += self._take_up(target, note)
                        note = self._note(transaction.query)
                    if note.done < transaction.batch:
                        count += self._begin(target, note, transaction.batch, parts)
            self._clean(transaction, parts)
            return count

    def abort(self, parts: Sequence[Part], transaction: Transaction | None = None) -> None:
        """Delete these parts, but for what a note needs: a batch that was begun is finished by its next commit. Other
        parts of the batch may be those of its next attempt, when this one was taken for dead. What can't be deleted now
        stays until that commit."""
        with contextlib.suppress(EverlogError), self._locked(0):
            needed = set() if transaction is None else self._needed(transaction.query)
            self._discard({part.name for part in parts} - needed)

    def discard(self, write: str) -> None:
        """Delete what tasks of a write without a transaction have staged or are staging, by the key of its parts: no
        note needs it, and no later commit deletes it."""
        with contextlib.suppress(EverlogError):
            self._discard(name for name in self._storage.names() if notes.batch_of(name, write) is not None)

    # One at a time

    @contextlib.contextmanager
    def _locked(self, wait_s: float) -> Iterator[None]:
        deadline = time.monotonic() + wait_s
        with self._storage.open_writable(LOCK, create=True) as file:
            while not file.hold():
                if time.monotonic() >= deadline:
                    where = f"{self._storage.root}/{LOCK}"
                    raise StoreUnavailable(where, found="a commit of another query", expected=f"none for {wait_s:g} s")
                time.sleep(_POLL_S)
            yield

    # Appending

    def _append_unnoted(self, parts: Sequence[Part]) -> int:
        rows = sum(part.rows for part in parts)
        if not rows:
            return 0
        with self._open_target() as target:
            self._finish_others(target, None)
            self._check(target, parts)
            plan = Plan(0, tuple(parts), time.time_ns())
            done = 0
            try:
                for count in self._append(target, plan, lambda begun: None):
                    done += count
            except EverlogError as error:
                if done:
                    _log.warning("%s: %d of %d messages of a write that failed are there", self._target, done, rows)
                error.appended = done
                raise
            return done

    def _begin(self, target: Target, note: Note, batch: int, parts: Sequence[Part]) -> int:
        self._check(target, parts)
        return self._go_on(target, note, Plan(batch, tuple(parts), time.time_ns()))

    def _take_up(self, target: Target, note: Note) -> int:
        """Finish the batch that a note says was begun."""
        plan = note.plan
        assert plan is not None
        for part in plan.parts:
            staging.check(self._storage, part)
        found = self._count_found(target, plan)
        _log.warning(
            "%s: batch %d of query %s was broken off: %d of its %d messages are there, now come the others",
            *(self._target, plan.batch, note.query, plan.appended + found, plan.rows),
        )
        return self._go_on(target, note, replace(plan, appended=plan.appended + found))

    def _count_found(self, target: Target, plan: Plan) -> int:
        first = next(chunks(self._storage, plan.parts, plan.appended), None)
        if first is None or plan.place is None:
            return 0
        try:
            return target.count_found(plan.place, first.first(plan.most), plan.time_ns)
        except Uncertain as error:
            if self._on_uncertain is OnUncertain.FAIL:
                hint = "the option onUncertain=repeat appends the chunk again, skip leaves it out"
                raise Uncertain(error.where, found=error.found, expected=error.expected, hint=hint) from error
            _log.warning("%s; onUncertain=%s", error, self._on_uncertain)
            return plan.most if self._on_uncertain is OnUncertain.SKIP else 0

    def _go_on(self, target: Target, note: Note, plan: Plan) -> int:
        done = sum(self._append(target, plan, lambda begun: notes.publish(self._storage, note.planned(begun))))
        notes.publish(self._storage, note.finished(plan.batch))
        return done

    def _append(self, target: Target, plan: Plan, note: Callable[[Plan], None]) -> Iterator[int]:
        appended = plan.appended
        for chunk in chunks(self._storage, plan.parts, appended):
            while chunk:

                def note_place(place: Place, appended: int = appended, most: int = len(chunk)) -> None:
                    note(replace(plan, appended=appended, most=most, place=place))

                count = target.append(chunk, plan.time_ns, note_place)
                appended += count
                chunk = chunk.after(count)
                yield count

    def _check(self, target: Target, parts: Sequence[Part]) -> None:
        for part in parts:
            staging.check(self._storage, part)
        target.check(max((part.longest for part in parts), default=0))

    # Notes

    def _note(self, query: str) -> Note:
        note = notes.read_note(self._storage, query) or Note(query, self._target)
        if not self._name.is_named(note.target):
            hint = "another target wants a new checkpoint, or a stagingPath of its own"
            message = f"query {query} wrote to {note.target} before, not to {self._target}"
            raise UsageError(f"query {query}", found=self._target, expected=note.target, message=message, hint=hint)
        return replace(note, target=self._target)

    def _finish_others(self, target: Target, query: str | None) -> None:
        """Else what they append later could be taken for what we do now, or the other way round."""
        for note in notes.read_notes(self._storage):
            if note.plan is None or note.query == query or not self._is_begun_here(target, note.target, note.plan):
                continue
            try:
                self._take_up(target, note)
            except EverlogError as error:  # it is told to that query, when it comes again
                text = "%s: batch %d of query %s stays half appended: %s"
                _log.warning(text, self._target, note.plan.batch, note.query, error)

    def _is_begun_here(self, target: Target, name: str, plan: Plan) -> bool:
        """Other options may name the same recording: the place tells, whatever the note calls it."""
        if self._name.is_named(name):
            return True
        return plan.place is not None and self._name.is_in_store(name) and target.has(plan.place)

    # Staged parts

    def _clean(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Delete the parts of the query's batches up to this one, but for those that its note needs."""
        names = {part.name for part in parts}
        for name in self._storage.names():
            batch = notes.batch_of(name, transaction.query)
            if batch is not None and batch <= transaction.batch:
                names.add(name)
        self._discard(names - self._needed(transaction.query))

    def _needed(self, query: str) -> set[str]:
        note = notes.read_note(self._storage, query)
        return set() if note is None or note.plan is None else {part.name for part in note.plan.parts}

    def _discard(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._storage.remove(name)
            except EverlogError as error:
                _log.warning("%s: a staged part stays: %s", name, error)
