"""Plans that change a node's ``recording.log``: what :mod:`everlog.aeron.cluster.tool.recording_log_changes` says, done
so that a crash leaves the old file or the new one, never a part.

**Order, and what a crash leaves.** The old content goes to the backup and is synced there. Then, for a start from a
snapshot, to ``recording.log.bak``, as ClusterTool does; then the new content is written to a draft, synced, and given
the name of the old one, and the folder is synced. A crash before the rename leaves the old file, one after it the new
one; a power cut before the folder's sync either. A draft ``.everlog-*`` may be left, and may be deleted.

**Processes at work.** A node keeps the file open and writes on in it; so a step refuses while a mark file in the folder
says that a component is alive, and while any process has the file open. Two changes at once exclude each other by the
file's lock. A node that starts at the very moment of the rename is not seen: do not start it meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from everlog.aeron.cluster.folder.snapshot import service_label
from everlog.aeron.cluster.format.mark_file import MARK_NAME, load_mark, service_mark_names
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, TERM, RecordingLog, read_recording_log
from everlog.aeron.cluster.tool.recording_log_changes import (
    Change,
    invalidate_latest_snapshot,
    is_part,
    seed_from_snapshot,
    sort_entries,
)
from everlog.aeron.mark_file import Clock
from everlog.aeron.mark_file import now_ms as system_ms
from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.files.writable import WritableFile, WritableStorage, writable
from everlog.core.json_text import parse_json
from everlog.core.plan.backup import Backup
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import FolderStep
from everlog.errors import CorruptData, EverlogError, FileChanged, LimitExceeded, StoreUnavailable, WriteFailed

BACKUP_NAME = f"{RECORDING_LOG_NAME}.bak"
"""Where ClusterTool puts the old file before it starts a new one from a snapshot."""
PLAN_NAME = "plan.json"
MAX_PLAN_BYTES = 1 << 20
FAMILY = "aeron-cluster"


def refuse_live(storage: Storage, now_ms: Clock = system_ms) -> None:
    """Raises :class:`StoreUnavailable` when a component of the node is alive by its mark file, or has the recording log
    open; :class:`CorruptData` for a mark file that does not tell."""
    names = storage.names()
    for name in (MARK_NAME, *service_mark_names(names)):
        try:
            mark = load_mark(storage, name)
        except CorruptData as error:
            hint = "whether the node runs can't be told; if it does not, move this file away: a start makes a new one"
            raise CorruptData(
                error.where,
                offset=error.offset,
                found=error.found,
                expected=error.expected,
                hint=f"{hint}; nothing was changed",
            ) from error
        if mark is not None and mark.is_live(now_ms()):
            found = f"{mark.label}, which runs (process {mark.header.pid})"
            hint = "stop the node first; one that was killed counts as running for 10 seconds; nothing was changed"
            raise StoreUnavailable(mark.name, found=found, expected="a node that does not run", hint=hint)


def refuse_other_owner(storage: Storage) -> None:
    """Raises :class:`StoreUnavailable` when the new recording log would be another user's than the old one, which the
    node could not write then: a new file is its maker's, but root's has the owner of the one that it replaces."""
    maker = os.geteuid()
    if maker == 0 or not isinstance(storage, LocalStorage):
        return
    folder = storage.root
    try:
        owner = os.stat(storage.path(RECORDING_LOG_NAME)).st_uid
    except OSError:
        return  # whoever reads the file next tells what is wrong with it
    if owner != maker:
        found, expected = f"a file of user {owner}", f"one of user {maker}, whose the new one would be"
        hint = f"run it as the node's user, such as with sudo -u '#{owner}'; nothing was changed"
        raise StoreUnavailable(f"{folder}/{RECORDING_LOG_NAME}", found=found, expected=expected, hint=hint)


@dataclass(frozen=True, kw_only=True)
class ReplaceNodeFile(FolderStep):
    """A file of the folder gets new content at once, while ``recording.log`` is as it was when it was planned.

    ``recording_log`` is that; ``old`` what the file itself has (``None``: it is not there), ``new`` what it gets.
    """

    after_crash = "the old file or the new one, and maybe a draft, which may be deleted"

    recording_log: bytes
    old: bytes | None
    new: bytes
    now_ms: Clock = system_ms

    def check(self) -> None:
        """See :class:`RepairStep`."""
        refuse_live(self.storage, self.now_ms)
        refuse_other_owner(self.storage)
        if self.storage.is_open_elsewhere(RECORDING_LOG_NAME):
            found, expected = "a process that has it open", "none while it is changed"
            hint = "stop the node first; nothing was changed"
            raise StoreUnavailable(RECORDING_LOG_NAME, found=found, expected=expected, hint=hint)
        self._compare(self.storage.read_all(RECORDING_LOG_NAME), self._current())

    def _current(self) -> bytes | None:
        return self.storage.read_all(self.file) if self.storage.exists(self.file) else None

    def _compare(self, recording_log: bytes, own: bytes | None) -> None:
        for name, found, planned in (
            (RECORDING_LOG_NAME, recording_log, self.recording_log),
            (self.file, own, self.old),
        ):
            if found != planned:
                expected = f"{_size_text(planned)}, as when the change was planned"
                raise FileChanged(name, found=_size_text(found, "others"), expected=expected)

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`. The error of a write that failed says which content stands."""
        self.check()
        try:
            if backup is not None and self.old is not None:
                backup.save(self.file, [self.old])
            with self._alone() as file:
                self._compare(file.read_at(0, file.size()), self._current())
                self.storage.publish(self.file, self.new, replace=True, mode=file.mode(), sync=True)
        except WriteFailed as error:
            hint = "; ".join(filter(None, (self._standing(), error.hint)))
            raise WriteFailed(error.where, found=error.found, expected=error.expected, hint=hint) from error
        return f"wrote {self.file}: {self.after}"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[WritableFile]:
        """The recording log, locked against other changes."""
        with self.storage.open_writable(RECORDING_LOG_NAME) as file:
            if not file.lock(wait=False):
                expected = "none at the same time"
                raise StoreUnavailable(RECORDING_LOG_NAME, found="a process that changes it", expected=expected)
            if not file.is_current():
                raise FileChanged(RECORDING_LOG_NAME, found="another file", expected="that which the change is of")
            yield file

    def _standing(self) -> str:
        try:
            now = self._current()
        except EverlogError as error:
            return f"which content {self.file} has can't be told: {error.found}"
        if now == self.new:
            return f"{self.file} is the new one, but a power cut may bring the old one back"
        return f"{self.file} is as it was"

    def to_dict(self) -> dict[str, str]:
        """Plain values, with the SHA-256 of both contents, by which :func:`plan_restore` knows them."""
        old = {} if self.old is None else {"old_sha256": _sha256(self.old)}
        return {**super().to_dict(), **old, "new_sha256": _sha256(self.new)}


def _size_text(data: bytes | None, which: str = "") -> str:
    return "no file" if data is None else " ".join(filter(None, (which, f"{len(data)} bytes")))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _plan(storage: WritableStorage, old: bytes, change: Change | None, now_ms: Clock) -> RepairPlan:
    if change is None:
        return RepairPlan(storage.root, FAMILY, ())
    step = ReplaceNodeFile(
        file=RECORDING_LOG_NAME,
        before=change.before,
        after=change.after,
        loses=change.loses,
        storage=storage,
        recording_log=old,
        old=old,
        new=change.data,
        now_ms=now_ms,
    )
    return RepairPlan(storage.root, FAMILY, (step,))


def _read(storage: Storage) -> tuple[WritableStorage, bytes]:
    if not storage.exists(RECORDING_LOG_NAME):
        raise StoreUnavailable(f"{storage.root}/{RECORDING_LOG_NAME}", found="no file", expected="a recording log")
    return writable(storage), storage.read_all(RECORDING_LOG_NAME)


def plan_sort(storage: Storage, *, now_ms: Clock = system_ms) -> RepairPlan:
    """Sort the entries; empty when they are in order. Changes nothing yet. Raises as
    :func:`~everlog.aeron.cluster.tool.recording_log_changes.sort_entries`, :class:`StoreUnavailable` where there is no
    recording log, :class:`UsageError` for a folder that is not on this machine; so do all plans here."""
    folder, data = _read(storage)
    return _plan(folder, data, sort_entries(data), now_ms)


def _service_count(storage: Storage, log: RecordingLog) -> int:
    """As many as there are mark files and valid snapshots of."""
    ids = [entry.service_id for entry in log.entries if entry.is_valid and entry.type != TERM]
    return max([len(service_mark_names(storage.names())), *(service_id + 1 for service_id in ids)])


def _lacking(log: RecordingLog, index: int, service_count: int, given: Collection[int] | None) -> list[str]:
    """What keeps a node from loading the snapshot of the consensus module's entry at ``index``, in words."""
    own = log.entries[index]
    parts = {entry.service_id: entry for entry in log.entries if entry.is_valid and is_part(entry, own)}
    lacking = [f"no snapshot of {service_label(i)}" for i in range(service_count) if i not in parts]
    return lacking + [
        f"no recording {part.recording_id} of {service_label(part.service_id)} in the archive"
        for part in parts.values()
        if given is not None and part.recording_id not in given
    ]


def plan_invalidate(
    storage: Storage, *, log_start: int = 0, given: Collection[int] | None = None, now_ms: Clock = system_ms
) -> RepairPlan:
    """Mark the latest snapshot as invalid; empty when there is none.

    ``log_start``: where the recording of the log begins. Raises :class:`CorruptData` when a start would need what is
    before it. ``given``: the recordings that the archive gives to the node, ``None`` where that is not known; ``loses``
    says when the snapshot that a start then loads lacks one, or a service's part.
    """
    folder, data = _read(storage)
    change = invalidate_latest_snapshot(data)
    if change is not None:
        before = read_recording_log(data)
        log = read_recording_log(change.data)
        index = log.latest_snapshot()
        needed = 0 if index is None else log.entries[index].log_position
        if needed < log_start:
            found, expected = f"a log that begins at {log_start}", f"one from {needed} on, where a start would replay"
            hint = "this snapshot is the only one that the node can start from; nothing was changed"
            raise CorruptData(RECORDING_LOG_NAME, found=found, expected=expected, hint=hint)
        lacking = [] if index is None else _lacking(log, index, _service_count(storage, before), given)
        if lacking:
            warning = f"which fails: it finds {', '.join(lacking)}; invalidate that snapshot, too, or undo this"
            change = replace(change, loses=f"{change.loses}, {warning}")
    return _plan(folder, data, change, now_ms)


def plan_seed(
    storage: Storage,
    *,
    service_count: int | None = None,
    given: Collection[int] | None = None,
    now_ms: Clock = system_ms,
) -> RepairPlan:
    """Start anew from the latest snapshot; empty when nothing else is there. The old file is kept as
    ``recording.log.bak``, too; one of that name is replaced, and goes to the backup.

    ``service_count``: of the node's services; by default as many as there are mark files and valid snapshots of.
    ``given``: the recordings that the archive gives to the node, ``None`` where that is not known. Raises
    :class:`CorruptData` when one of the snapshot is not among them: there would be nothing to start from.
    """
    folder, data = _read(storage)
    log = read_recording_log(data)
    if service_count is None:
        service_count = _service_count(storage, log)
    change, index = seed_from_snapshot(data, service_count), log.latest_snapshot()
    lacking = [] if change is None or index is None else _lacking(log, index, 0, given)
    if lacking:
        expected = "the recordings of the snapshot that a start would load"
        hint = "--archive-dir says where the archive is; invalidate-latest-snapshot makes an earlier one the latest"
        hint += "; nothing was changed"
        raise CorruptData(RECORDING_LOG_NAME, found=lacking[0], expected=expected, hint=hint)
    plan = _plan(folder, data, change, now_ms)
    former = storage.read_all(BACKUP_NAME) if storage.exists(BACKUP_NAME) else None
    if plan.is_empty or former == data:
        return plan
    keep = ReplaceNodeFile(
        file=BACKUP_NAME,
        before=_size_text(former),
        after=f"a copy of {RECORDING_LOG_NAME}",
        storage=folder,
        recording_log=data,
        old=former,
        new=data,
        now_ms=now_ms,
    )
    return RepairPlan(plan.store, plan.family, (keep, *plan.steps))


def plan_restore(storage: Storage, backup: Storage, *, now_ms: Clock = system_ms) -> RepairPlan:
    """Bring back what a change kept in its backup; empty when it is back already.

    Raises :class:`FileChanged` when the file is not as that change left it: somebody wrote to it since.
    :class:`StoreUnavailable` and :class:`CorruptData` for a folder that is no such backup.
    """
    folder, data = _read(storage)
    kept = backup.read_all(RECORDING_LOG_NAME)
    made = _made_by(backup)
    if _sha256(kept) != made.get("old_sha256"):
        where = f"{backup.root}/{RECORDING_LOG_NAME}"
        raise CorruptData(where, found="other bytes", expected=f"those that {PLAN_NAME} beside it tells of")
    if kept == data:
        return RepairPlan(folder.root, FAMILY, ())
    if _sha256(data) != made.get("new_sha256"):
        raise FileChanged(
            RECORDING_LOG_NAME,
            found="another content than the change left",
            expected="that which it left; the node wrote to it since, or another change",
            hint="undo later changes first; nothing was changed",
        )
    before, after = str(made.get("after")), str(made.get("before"))
    return _plan(folder, data, Change(kept, before, after), now_ms)


def _made_by(backup: Storage) -> dict[str, object]:
    """What a backup's plan says of its change to the recording log."""
    where = f"{backup.root}/{PLAN_NAME}"
    if backup.size(PLAN_NAME) > MAX_PLAN_BYTES:
        raise LimitExceeded(where, found=f"{backup.size(PLAN_NAME)} bytes", expected=f"at most {MAX_PLAN_BYTES}")
    try:
        steps = parse_json(backup.read_all(PLAN_NAME))["steps"]
        return next(dict(step) for step in steps if step["file"] == RECORDING_LOG_NAME)
    except (ValueError, TypeError, KeyError, StopIteration) as error:
        raise CorruptData(where, found="no such plan", expected=f"a change of {RECORDING_LOG_NAME}") from error
