"""Plans that apply the changes of :mod:`everlog.aeron.cluster.tool.recording_log_changes` to a node's
``recording.log``. A crash leaves the whole old file or the whole new one.

**Order of writes, and crashes.** The old content is written to the backup and synced. When seeding from a snapshot, it
is also written to ``recording.log.bak``, as ClusterTool does. Then the new content is written to a draft, synced and
renamed over the old file, and the folder is synced. A crash before the rename leaves the old file, one after it the new
file; a power cut before the folder's sync leaves either. A draft ``.everlog-*`` may remain; it can be deleted.

**Running processes.** A node keeps the file open and appends to it. So a step refuses to run while a mark file in the
folder has a live heartbeat, and while any process has the file open. A file lock excludes concurrent changes. A node
that starts at the moment of the rename is not detected: do not start it during a change.
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
"""ClusterTool's name for the old file when it seeds a new one from a snapshot."""
PLAN_NAME = "plan.json"
MAX_PLAN_BYTES = 1 << 20
FAMILY = "aeron-cluster"


def refuse_live(storage: Storage, now_ms: Clock = system_ms) -> None:
    """Raise :class:`StoreUnavailable` if a component's mark file has a live heartbeat, and :class:`CorruptData` if a
    mark file is unreadable."""
    names = storage.names()
    for name in (MARK_NAME, *service_mark_names(names)):
        try:
            mark = load_mark(storage, name)
        except CorruptData as error:
            hint = "the node may be running; if it is not, move this file away: a start creates a new one"
            raise error.with_hint(f"{hint}; nothing was changed") from error
        if mark is not None and mark.is_live(now_ms()):
            found = f"{mark.label} is running (process {mark.header.pid})"
            hint = "stop the node first; a killed node counts as running for 10 seconds; nothing was changed"
            message = f"{mark.name}: {found}"
            raise StoreUnavailable(mark.name, found=found, expected="a stopped node", hint=hint, message=message)


def refuse_other_owner(storage: Storage) -> None:
    """Raise :class:`StoreUnavailable` if the new recording log would have another owner than the old one: the node
    could not write to it. Root may replace any file, because it keeps the owner."""
    user = os.geteuid()
    if user == 0 or not isinstance(storage, LocalStorage):
        return
    folder = storage.root
    try:
        owner = os.stat(storage.path(RECORDING_LOG_NAME)).st_uid
    except OSError:
        return  # the next read of the file reports the error
    if owner != user:
        found, expected = f"owned by user {owner}", f"owner {user}, as the new file would have"
        hint = f"run this as the node's user, for example with sudo -u '#{owner}'; nothing was changed"
        raise StoreUnavailable(f"{folder}/{RECORDING_LOG_NAME}", found=found, expected=expected, hint=hint)


@dataclass(frozen=True, kw_only=True)
class ReplaceNodeFile(FolderStep):
    """Replaces a file's content atomically, if ``recording.log`` has not changed since the change was planned.

    ``recording_log`` is the planned content of that file; ``old`` is the file's own content (``None`` if it does not
    exist), ``new`` what it gets.
    """

    after_crash = "the old file or the new one, and maybe a draft, which may be deleted"

    recording_log: bytes
    old: bytes | None
    new: bytes
    now_ms: Clock = system_ms

    def check(self) -> None:
        refuse_live(self.storage, self.now_ms)
        refuse_other_owner(self.storage)
        if self.storage.is_open_elsewhere(RECORDING_LOG_NAME):
            found, expected = "open in another process", "a file that no process uses"
            hint = "stop the node first; nothing was changed"
            message = f"{found}: {RECORDING_LOG_NAME}"
            raise StoreUnavailable(RECORDING_LOG_NAME, found=found, expected=expected, hint=hint, message=message)
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
                raise FileChanged(name, found=_size_text(found, "other content,"), expected=expected)

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`. If a write fails, the error says which content the file has."""
        self.check()
        try:
            if backup is not None and self.old is not None:
                backup.save(self.file, [self.old])
            with self._locked() as file:
                self._compare(file.read_at(0, file.size()), self._current())
                self.storage.publish(self.file, self.new, replace=True, mode=file.mode(), sync=True)
        except WriteFailed as error:
            hint = "; ".join(filter(None, (self._outcome(), error.hint)))
            raise error.with_hint(hint) from error
        return f"wrote {self.file}: {self.after}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[WritableFile]:
        """Open the recording log, locked against other changes."""
        with self.storage.open_writable(RECORDING_LOG_NAME) as file:
            if not file.lock(wait=False):
                found, expected = "another process is changing it", "an unlocked file"
                message = f"{RECORDING_LOG_NAME}: {found}"
                raise StoreUnavailable(RECORDING_LOG_NAME, found=found, expected=expected, message=message)
            if not file.is_current():
                found, expected = "replaced by another file", "the file for which the change was planned"
                raise FileChanged(RECORDING_LOG_NAME, found=found, expected=expected)
            yield file

    def _outcome(self) -> str:
        try:
            now = self._current()
        except EverlogError as error:
            return f"can't read {self.file} to see which content it has: {error.found}"
        if now == self.new:
            return f"{self.file} is the new file, but a power cut may bring back the old"
        return f"{self.file} is unchanged"

    def to_dict(self) -> dict[str, str]:
        """Return plain values, with the SHA-256 of both contents for :func:`plan_restore`."""
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
        where = f"{storage.root}/{RECORDING_LOG_NAME}"
        message = f"no {RECORDING_LOG_NAME} in {storage.root}"
        raise StoreUnavailable(where, found="no file", expected="a recording log", message=message)
    return writable(storage), storage.read_all(RECORDING_LOG_NAME)


def plan_sort(storage: Storage, *, now_ms: Clock = system_ms) -> RepairPlan:
    """Plan to sort the entries. The plan is empty if they are sorted. Changes nothing yet.

    Raises what :func:`~everlog.aeron.cluster.tool.recording_log_changes.sort_entries` raises. As all plans here, raises
    :class:`StoreUnavailable` if the recording log is missing and :class:`UsageError` if the folder is not local."""
    folder, data = _read(storage)
    return _plan(folder, data, sort_entries(data), now_ms)


def _service_count(storage: Storage, log: RecordingLog) -> int:
    """The number of services, by their mark files and valid snapshots."""
    ids = [entry.service_id for entry in log.entries if entry.is_valid and entry.type != TERM]
    return max([len(service_mark_names(storage.names())), *(service_id + 1 for service_id in ids)])


def _lacking(log: RecordingLog, index: int, service_count: int, given: Collection[int] | None) -> list[str]:
    """List what a node lacks to load the snapshot of the consensus module's entry at ``index``."""
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
    """Plan to mark the latest snapshot as invalid. The plan is empty if there is none.

    ``log_start`` is the start position of the log's recording; raises :class:`CorruptData` if a start would need
    earlier messages. ``given`` has the IDs of the recordings that the archive provides to the node, or is ``None`` if
    unknown; the step's ``loses`` warns if the snapshot that a start then loads lacks a recording or a service's part.
    """
    folder, data = _read(storage)
    change = invalidate_latest_snapshot(data)
    if change is not None:
        before = read_recording_log(data)
        log = read_recording_log(change.data)
        index = log.latest_snapshot()
        needed = 0 if index is None else log.entries[index].log_position
        if needed < log_start:
            found = f"a log that begins at position {log_start}"
            expected = f"a log from position {needed}, where a start would replay from"
            hint = "the node can start from this snapshot only; nothing was changed"
            raise CorruptData(RECORDING_LOG_NAME, found=found, expected=expected, hint=hint)
        lacking = [] if index is None else _lacking(log, index, _service_count(storage, before), given)
        if lacking:
            warning = f"which fails: {', '.join(lacking)}; invalidate that snapshot too, or undo this change"
            change = replace(change, loses=f"{change.loses}, {warning}")
    return _plan(folder, data, change, now_ms)


def plan_seed(
    storage: Storage,
    *,
    service_count: int | None = None,
    given: Collection[int] | None = None,
    now_ms: Clock = system_ms,
) -> RepairPlan:
    """Plan to seed a new recording log from the latest snapshot. The plan is empty if the file has nothing else.

    The old file is also kept as ``recording.log.bak``; an existing file of that name goes to the backup.
    ``service_count`` is the node's number of services, by default that of its mark files and valid snapshots. ``given``
    has the IDs of the recordings that the archive provides to the node, or is ``None`` if unknown. Raises
    :class:`CorruptData` if it lacks a recording of the snapshot: the node could not start.
    """
    folder, data = _read(storage)
    log = read_recording_log(data)
    if service_count is None:
        service_count = _service_count(storage, log)
    change, index = seed_from_snapshot(data, service_count), log.latest_snapshot()
    lacking = [] if change is None or index is None else _lacking(log, index, 0, given)
    if lacking:
        expected = "the recordings of the snapshot that a start would load"
        hint = "--archive-dir names another archive; invalidate-latest-snapshot selects an earlier snapshot"
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
    """Plan to restore the recording log from a change's backup. The plan is empty if the file is restored already.

    Raises :class:`FileChanged` if the file was written since that change, and :class:`StoreUnavailable` or
    :class:`CorruptData` if ``backup`` is not the backup of such a change.
    """
    folder, data = _read(storage)
    kept = backup.read_all(RECORDING_LOG_NAME)
    made = _made_by(backup)
    if _sha256(kept) != made.get("old_sha256"):
        where = f"{backup.root}/{RECORDING_LOG_NAME}"
        found, expected = "another SHA-256", f"the one in {PLAN_NAME} of the same folder"
        raise CorruptData(where, found=found, expected=expected)
    if kept == data:
        return RepairPlan(folder.root, FAMILY, ())
    if _sha256(data) != made.get("new_sha256"):
        raise FileChanged(
            RECORDING_LOG_NAME,
            found="written since the change",
            expected="the content that the change wrote",
            hint="undo later changes first; nothing was changed",
        )
    before, after = str(made.get("after")), str(made.get("before"))
    return _plan(folder, data, Change(kept, before, after), now_ms)


def _made_by(backup: Storage) -> dict[str, object]:
    """Read a backup's change of the recording log from its plan."""
    where = f"{backup.root}/{PLAN_NAME}"
    if backup.size(PLAN_NAME) > MAX_PLAN_BYTES:
        raise LimitExceeded(where, found=f"{backup.size(PLAN_NAME)} bytes", expected=f"at most {MAX_PLAN_BYTES}")
    try:
        steps = parse_json(backup.read_all(PLAN_NAME))["steps"]
        return next(dict(step) for step in steps if step["file"] == RECORDING_LOG_NAME)
    except (ValueError, TypeError, KeyError, StopIteration) as error:
        expected = f"a change of {RECORDING_LOG_NAME}"
        raise CorruptData(where, found="not the plan of such a change", expected=expected) from error
