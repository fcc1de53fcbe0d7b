"""Undoes a command's changes from the backup folder that it made.

The plan in that folder says how to undo each step; steps are undone in reverse order. Steps that were not applied, or
are undone already, are skipped, so that an interrupted change can be undone, and an interrupted undo repeated. What
another program has written since is never overwritten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.archive.tool.checksum import KEPT
from everlog.aeron.archive.tool.steps import FILE_MODE, ToolStep, last_written, state_of
from everlog.aeron.frames.constants import HEADER_LENGTH, MAX_FRAME_LENGTH, MAX_SEGMENT_LENGTH, TYPE_DATA, align
from everlog.aeron.layouts import DataHeader
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.writable import DRAFT_PREFIX, WritableStorage, writable
from everlog.core.json_text import parse_json
from everlog.core.plan.backup import Backup, pieces_of
from everlog.core.plan.plan import RepairPlan
from everlog.errors import CorruptData, EverlogError, FileChanged, LimitExceeded

PLAN_NAME = "plan.json"
MAX_PLAN_BYTES = 256 << 20
MAX_PATCH_BYTES = 64
UNDONE = "as it was"

T = TypeVar("T")


def plan_undo(storage: Storage, backup: Storage) -> RepairPlan:
    """Plan to undo the command that made ``backup``; each step checks when it is applied what is left to undo.

    Raises :class:`StoreUnavailable` if an archive runs here or ``backup`` is not such a folder, :class:`CorruptData`
    for an invalid plan; applying it raises :class:`FileChanged` if the archive was changed since."""
    folder = writable(storage)
    refuse_running(folder)
    if backup.size(PLAN_NAME) > MAX_PLAN_BYTES:
        where = f"{backup.root}/{PLAN_NAME}"
        raise LimitExceeded(where, found=f"{backup.size(PLAN_NAME)} bytes", expected=f"at most {MAX_PLAN_BYTES}")
    try:
        made = parse_json(backup.read_all(PLAN_NAME))
        if made["family"] != FAMILY:
            raise ValueError(made["family"])
        steps = [_undo_of(folder, backup, step) for step in reversed(made["steps"])]
    except (ValueError, TypeError, KeyError) as error:
        found, expected = "not an archive's backup plan", "the plan of a change of an archive"
        raise CorruptData(f"{backup.root}/{PLAN_NAME}", found=found, expected=expected) from error
    return RepairPlan(folder.root, FAMILY, tuple(steps))


def _undo_of(storage: WritableStorage, backup: Storage, step: dict[str, Any]) -> Undo:
    how = dict(step["undo"])
    if how["kind"] not in _KINDS:
        raise ValueError(how["kind"])
    return Undo(
        file=_is(str, step["file"]),
        before=_is(str, step["after"]),
        after=_is(str, step["before"]),
        storage=storage,
        backup=backup,
        how=how,
    )


def _is(kind: type[T], value: Any) -> T:
    """Return a plan's value if it has the type. Raises :class:`TypeError`."""
    if not isinstance(value, kind):
        raise TypeError(repr(value))
    return value


@dataclass(frozen=True, kw_only=True)
class Undo(ToolStep):
    """Undoes one step, if it is not undone yet. A crash leaves it undone or not, or undone for some of its files."""

    after_crash = "the step undone or not, or some of its files: undoing again finishes"

    backup: Storage = field(repr=False)
    how: dict[str, Any]

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`. Raises :class:`CorruptData` for a plan that does not say what is needed."""
        self.check()
        try:
            done = _KINDS[self.how["kind"]](self)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise CorruptData(
                f"{self.backup.root}/{PLAN_NAME}", found=f"{self.how}", expected="instructions to undo a step"
            ) from error
        return f"{self.file}: {self.after}" if done else f"{self.file}: nothing to undo"

    def undo(self) -> dict[str, Any]:
        return self.how

    def written_since(self, name: str) -> FileChanged:
        """Return the error for a file that was written since the change."""
        hint = "undo later changes first; earlier steps of this undo stay undone"
        found, expected = "other contents than the change left", "the contents that the change left"
        return FileChanged(name, found=found, expected=expected, hint=hint)

    def bring_back(self, name: str) -> None:
        """Restore a whole file from the backup, atomically."""
        draft = f"{DRAFT_PREFIX}undo-{name}"
        self.storage.remove(draft)
        try:
            with (
                self.backup.open(name) as kept,
                self.storage.open_writable(draft, create=True, exclusive=True, mode=FILE_MODE) as file,
            ):
                at = 0
                for piece in pieces_of(kept):
                    if piece.count(0) < len(piece):
                        file.write_at(at, piece)
                    at += len(piece)
                if file.size() < at:
                    file.truncate(at)
                file.sync()
            self.storage.rename(draft, name)
        except BaseException:
            with contextlib.suppress(EverlogError):
                self.storage.remove(draft)
            raise
        self.storage.sync_folder()


def _write(step: Undo) -> bool:
    old, new = bytes.fromhex(step.how["old"]), bytes.fromhex(step.how["new"])
    offset = _is(int, step.how["offset"])
    if len(old) != len(new) or not 0 < len(old) <= MAX_PATCH_BYTES:
        raise ValueError(step.how)
    with step.storage.open_writable(step.file) as file:
        found = file.read_at(offset, len(old))
        if found in (old, bytes.fromhex(step.how.get("before_plan", ""))):
            return False
        if found != new:
            raise step.written_since(step.file)
        file.write_at(offset, old)
        file.sync()
    return True


def _replace(step: Undo) -> bool:
    """Restore a replaced file. The backup has it only if the step was applied."""
    now = list(state_of(step.storage, step.file))
    if not step.backup.exists(step.file) or now in step.how["states"]:
        return False
    if now != [_is(int, step.how["new_size"]), _is(int, step.how["new_crc32"])]:
        raise step.written_since(step.file)
    step.bring_back(step.file)
    return True


def _restore(step: Undo) -> bool:
    missing = []
    for name, size in step.how["files"]:
        if not step.storage.exists(_is(str, name)):
            missing.append(name)
        elif step.storage.size(name) != size:
            raise step.written_since(name)
    for name in missing:
        step.bring_back(name)
    return bool(missing)


def _rename(step: Undo) -> bool:
    todo = []
    for old, new in step.how["names"]:
        if step.storage.exists(_is(str, new)):
            if step.storage.exists(_is(str, old)):
                raise step.written_since(old)
            todo.append((new, old))
        elif not step.storage.exists(_is(str, old)):
            raise step.written_since(old)
    for new, old in todo:
        step.storage.rename(new, old)
    step.storage.sync_folder()
    return bool(todo)


def _remove_empty(step: Undo) -> bool:
    if not step.storage.exists(step.file):
        return False
    if step.storage.size(step.file):
        raise step.written_since(step.file)
    step.storage.remove(step.file)
    step.storage.sync_folder()
    return True


def _shorten(step: Undo) -> bool:
    size = _is(int, step.how["size"])
    with step.storage.open_writable(step.file) as file:
        if file.size() == size:
            return False
        if file.size() != step.how["new_size"] or last_written(file, size) > size:
            raise step.written_since(step.file)
        file.truncate(size)
        file.sync()
    return True


def _put(step: Undo) -> bool:
    """Restore bytes that were zeroed. The header of their first frame is written last: until then the recording ends
    before it."""
    name, offset = _is(str, step.how["from"]), _is(int, step.how["offset"])
    if not step.backup.exists(name):
        return False
    if step.backup.size(name) > MAX_SEGMENT_LENGTH:
        raise ValueError(name)
    with step.backup.open(name) as kept, step.storage.open_writable(step.file) as file:
        head = kept.read_at(0, HEADER_LENGTH)
        found = file.read_at(offset, HEADER_LENGTH)
        if found != head and any(found):
            raise step.written_since(step.file)
        at = offset + HEADER_LENGTH
        for piece in pieces_of(kept, HEADER_LENGTH):
            file.write_at(at, piece)
            at += len(piece)
        file.sync()
        file.write_at(offset, head)
        file.sync()
    return True


def _session_ids(step: Undo) -> bool:
    """Restore session ids. All frames are checked before the first one changes: an offset at which another program has
    written since may be in the middle of a payload."""
    name = _is(str, step.how["from"])
    if not step.backup.exists(name):
        return False
    with step.backup.open(name) as kept, step.storage.open_writable(step.file) as file:
        for offset, session_id in _kept_ids(kept):
            if not _has_checksum_or(file, offset, session_id):
                raise step.written_since(step.file)
        for offset, session_id in _kept_ids(kept):
            file.write_at(offset, session_id.to_bytes(4, "little"))
        file.sync()
    return True


def _kept_ids(kept: ReadableFile) -> Iterator[tuple[int, int]]:
    """Yield the offset and the old value of each frame's session id; skip a last one that a crash left incomplete."""
    step_bytes = KEPT.size << 16
    for at in range(0, kept.size() // KEPT.size * KEPT.size, step_bytes):
        yield from KEPT.iter_unpack(_whole(kept.read_at(at, step_bytes)))


def _has_checksum_or(file: ReadableFile, offset: int, session_id: int) -> bool:
    """Whether ``offset`` is the session id of a data frame and holds the frame's checksum or the old session id."""
    start = offset - DataHeader.field("session_id").offset
    head = file.read_at(start, HEADER_LENGTH) if start >= 0 else b""
    if len(head) < HEADER_LENGTH:
        return False
    frame = DataHeader.unpack_from(head)
    if frame.type != TYPE_DATA or not HEADER_LENGTH <= frame.frame_length <= MAX_FRAME_LENGTH:
        return False
    found = frame.session_id & 0xFFFFFFFF
    if found == session_id:
        return True
    length = align(frame.frame_length) - HEADER_LENGTH
    body = file.read_at(start + HEADER_LENGTH, length)
    return len(body) == length and any(crc.checksum(body) == found for crc in CHECKSUMS.values())


def _whole(data: bytes) -> bytes:
    return data[: len(data) // KEPT.size * KEPT.size]


_KINDS: dict[str, Callable[[Undo], bool]] = {
    "write": _write,
    "replace": _replace,
    "restore": _restore,
    "rename": _rename,
    "remove-empty": _remove_empty,
    "shorten": _shorten,
    "put": _put,
    "session-ids": _session_ids,
}
