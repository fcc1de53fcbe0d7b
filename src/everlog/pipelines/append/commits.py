"""The commit of a batch: appends what its tasks staged to the target exactly once, despite crashes and retries.

Only one commit at a time works on a staging folder (lock file ``commit.lock``). In order it

1. finishes what crashed commits to this target had begun, from their notes and staged parts;
2. ends here if the note says that the batch is done;
3. resumes the batch if its note says it was begun: the messages of the last chunk are read back and compared. Otherwise
   checks the parts, and that the target accepts the longest message; until then nothing is appended;
4. appends chunk by chunk; before each the note records how many messages are certainly there, and the next one's place;
5. notes that the batch is done, and deletes its parts.

A crash before the first note leaves unneeded parts; a later one leaves a note from which step 1 or 3 continues. A
process that was wrongly presumed dead does no harm when it commits: it reads the note once it gets the lock.
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
    """What to do if it can't be determined how much of a chunk was appended: fail the commit, append all of the chunk
    (at least once), or append none of it (at most once)."""

    FAIL = "fail"
    REPEAT = "repeat"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Transaction:
    """Identifies a batch of a query in its note. ``query``: letters, digits and hyphens."""

    query: str
    batch: int


class Committer:
    """Commits to one target. ``target`` is its name in notes, ``open_target`` opens it, and ``storage`` holds parts and
    notes. ``wait_s`` is how long to wait for another commit."""

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
        """Append what was staged; returns how many messages this call appended. With a ``transaction``, a finished
        batch is not appended again and a begun one is completed; without one, each call appends the messages again.

        Raises :class:`UsageError` (a message that is too long, another target than before), :class:`StoreUnavailable`
        (another process uses the target or the staging folder) or :class:`CorruptData` if nothing was appended;
        :class:`WriteFailed` or :class:`Uncertain` if the first messages may have been. With a transaction the same call
        then continues after them.
        """
        with self._locked(self._wait_s):
            if transaction is None:
                count = self._append_unnoted(parts)
                self._discard(part.name for part in parts)
                return count
            note = self._note(transaction.query)
            count = 0
            if not parts and note.plan is None and note.done < transaction.batch:
                # The target is not needed, but the note is: it keeps lower batches from appending.
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
        """Delete these parts, except those that a note needs: a batch that was begun is finished by its next commit.
        Other parts of the batch are kept, since they may belong to its next attempt. What can't be deleted now stays
        until that commit."""
        with contextlib.suppress(EverlogError), self._locked(0):
            needed = set() if transaction is None else self._needed(transaction.query)
            self._discard({part.name for part in parts} - needed)

    def discard(self, write: str) -> None:
        """Delete what the tasks of a write without a transaction have staged or are staging; ``write`` is the key of
        its parts. No note needs them, and no later commit would delete them."""
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
                    message = f"another query's commit held {where} for over {wait_s:g} s"
                    raise StoreUnavailable(
                        where, found="a commit of another query", expected=f"none for {wait_s:g} s", message=message
                    )
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
                    _log.warning("%s: the write failed after appending %d of its %d messages", self._target, done, rows)
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
            "%s: resuming batch %d of query %s, of which %d of %d messages were appended",
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
                hint = "the option onUncertain=repeat appends the chunk again, onUncertain=skip leaves it out"
                raise error.with_hint(hint) from error
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
            hint = "another target needs a new checkpoint or its own stagingPath"
            message = f"query {query} wrote to {note.target} before, not to {self._target}"
            raise UsageError(f"query {query}", found=self._target, expected=note.target, message=message, hint=hint)
        return replace(note, target=self._target)

    def _finish_others(self, target: Target, query: str | None) -> None:
        """Finish other queries' begun batches. Otherwise their later appends and ours could not be distinguished."""
        for note in notes.read_notes(self._storage):
            if note.plan is None or note.query == query or not self._is_begun_here(target, note.target, note.plan):
                continue
            try:
                self._take_up(target, note)
            except EverlogError as error:  # that query gets the error at its next commit
                text = "%s: batch %d of query %s stays partly appended: %s"
                _log.warning(text, self._target, note.plan.batch, note.query, error)

    def _is_begun_here(self, target: Target, name: str, plan: Plan) -> bool:
        """Whether the plan is for this target. Other options may name the same recording, so the place decides, not the
        name in the note."""
        if self._name.is_named(name):
            return True
        return plan.place is not None and self._name.is_in_store(name) and target.has(plan.place)

    # Staged parts

    def _clean(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Delete the parts of the query's batches up to this one, except those that its note needs."""
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
                _log.warning("%s: staged part could not be deleted: %s", name, error)
