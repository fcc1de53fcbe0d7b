"""The steps of ArchiveTool's commands. Each describes in ``to_dict`` how to undo it
(:mod:`everlog.aeron.archive.tool.undo`), so that the plan in a backup is complete.

Each states what a crash leaves; a write within a page of 512 bytes is atomic.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.archive.folder.steps import ArchiveStep
from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.core.files.crc import crc32_of
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.zeros import nonzero_blocks
from everlog.core.plan.backup import COPY_BYTES, Backup, keep_file, pieces_of
from everlog.core.plan.changed import changed

FILE_MODE = 0o644
"""The mode of files that the original creates."""


def file_state(file: ReadableFile) -> tuple[int, int]:
    """Return the size and CRC-32 of a file, by which a change since planning is detected."""
    size = file.size()
    return size, crc32_of(file, 0, size)


def state_of(storage: Storage, name: str) -> tuple[int, int]:
    """Return the size and CRC-32 of the file with this name."""
    with storage.open(name) as file:
        return file_state(file)


@dataclass(frozen=True, kw_only=True)
class ToolStep(ArchiveStep):
    """A change by one of ArchiveTool's commands, which can be undone from its backup."""

    @abstractmethod
    def undo(self) -> dict[str, Any]:
        """Put back what :meth:`apply` changed. Returns what was undone, as plain values."""


@dataclass(frozen=True, kw_only=True)
class WriteBytes(ToolStep):
    """Overwrites a few bytes in place, with one write that does not cross a 64-byte boundary of the file: a crash
    leaves the old bytes or the new ones. The plan itself keeps the old ones. ``before_plan`` is what the file has until
    an earlier step of the same plan has written ``old``."""

    after_crash = "the old bytes or the new ones"

    offset: int
    old: bytes
    new: bytes
    before_plan: bytes | None = None

    def compare(self) -> None:
        with self.storage.open(self.file) as file:
            self._compare(file)

    def _compare(self, file: ReadableFile) -> None:
        found = file.read_at(self.offset, len(self.old))
        if found not in (self.old, self.new, self.before_plan):
            raise changed(self.file, f"{found.hex()} at offset {self.offset}", self.old.hex())

    def apply(self, backup: Backup | None) -> str:
        self.check()
        with self.storage.open_writable(self.file) as file:
            file.write_at(self.offset, self.new)
            file.sync()
        return f"{self.file}: {self.after}"

    def undo(self) -> dict[str, Any]:
        found = {"kind": "write", "offset": self.offset, "old": self.old.hex(), "new": self.new.hex()}
        return found if self.before_plan is None else {**found, "before_plan": self.before_plan.hex()}


@dataclass(frozen=True, kw_only=True)
class ReplaceFile(ToolStep):
    """Replaces a whole file atomically: a crash leaves the old file or the new one. ``states`` lists the sizes and
    CRC-32s that the file may have before. Earlier removals are synced first."""

    after_crash = "the old file or the new one"

    states: tuple[tuple[int, int], ...]
    new: bytes = field(repr=False)

    def compare(self) -> None:
        found = state_of(self.storage, self.file) if self.storage.exists(self.file) else (0, 0)
        if found not in self.states:
            raise changed(self.file, _state_text(found), " or ".join(map(_state_text, self.states)))

    def apply(self, backup: Backup | None) -> str:
        self.check()
        keep_file(backup, self.storage, self.file)
        with self.storage.open_writable(self.file) as file:
            mode = file.mode()
        self.storage.sync_folder()
        self.storage.publish(self.file, self.new, replace=True, mode=mode, sync=True)
        return f"{self.file}: {self.after}"

    def undo(self) -> dict[str, Any]:
        new = {"new_size": len(self.new), "new_crc32": zlib.crc32(self.new)}
        return {"kind": "replace", "states": [list(state) for state in self.states], **new}


@dataclass(frozen=True, kw_only=True)
class RemoveFiles(ToolStep):
    """Removes files, given by name and size, one by one; a crash leaves some of them. ``apply`` with a backup backs up
    all of them before it removes the first."""

    after_crash = "some of the files: planning again removes the rest; a backup has them all"

    files: tuple[tuple[str, int], ...]

    def compare(self) -> None:
        for name, size in self.files:
            self.expect_size(name, size)

    def apply(self, backup: Backup | None) -> str:
        self.check()
        for name, _ in self.files:
            keep_file(backup, self.storage, name)
        for name, _ in self.files:
            self.storage.remove(name)
        self.storage.sync_folder()
        return f"removed {', '.join(name for name, _ in self.files)}"

    def undo(self) -> dict[str, Any]:
        return {"kind": "restore", "files": [list(file) for file in self.files]}


@dataclass(frozen=True, kw_only=True)
class RenameFiles(ToolStep):
    """Renames files one by one: a crash leaves some of them renamed. No new name equals an old one."""

    after_crash = "some files renamed: planning again renames the others"

    names: tuple[tuple[str, str], ...]

    def compare(self) -> None:
        for old, new in self.names:
            if not self.storage.exists(old):
                raise changed(old, "no file", "a file")
            self.expect_none(new)

    def apply(self, backup: Backup | None) -> str:
        self.check()
        for old, new in self.names:
            self.storage.rename(old, new)
        self.storage.sync_folder()
        return f"renamed {', '.join(f'{old} -> {new}' for old, new in self.names)}"

    def undo(self) -> dict[str, Any]:
        return {"kind": "rename", "names": [list(pair) for pair in self.names]}


@dataclass(frozen=True, kw_only=True)
class CreateFile(ToolStep):
    """Creates an empty file, which may exist already."""

    after_crash = "the empty file, or none"

    def apply(self, backup: Backup | None) -> str:
        self.check()
        self.storage.publish(self.file, b"", replace=False, mode=FILE_MODE, sync=True)
        return f"created {self.file}"

    def undo(self) -> dict[str, Any]:
        return {"kind": "remove-empty"}


@dataclass(frozen=True, kw_only=True)
class Lengthen(ToolStep):
    """Lengthens a file with a hole of zeros. A crash leaves the old length or the new one."""

    after_crash = "the file at its old length or at the new one"

    old_size: int
    new_size: int

    def compare(self) -> None:
        self.expect_size(self.file, self.old_size)

    def apply(self, backup: Backup | None) -> str:
        self.check()
        with self.storage.open_writable(self.file) as file:
            file.truncate(self.new_size)
            file.sync()
        return f"{self.file}: {self.after}"

    def undo(self) -> dict[str, Any]:
        return {"kind": "shorten", "size": self.old_size, "new_size": self.new_size}


@dataclass(frozen=True, kw_only=True)
class ZeroTail(ToolStep):
    """Zeroes a file from a frame on up to ``end``; only zeros follow ``end``.

    The frame's header is zeroed last, so that a crash before leaves a torn frame. The rest is zeroed backwards from its
    end, so that nothing in it can ever look like a frame.
    """

    after_crash = "the frame as it was, or torn: its header is zeroed last, and planning again finishes it"

    offset: int
    end: int
    old_head: bytes
    size: int

    def compare(self) -> None:
        self.expect_size(self.file, self.size)
        with self.storage.open(self.file) as file:
            found = file.read_at(self.offset, HEADER_LENGTH)
        if found not in (self.old_head, bytes(HEADER_LENGTH)):
            raise changed(self.file, f"{found.hex()} at offset {self.offset}", self.old_head.hex())

    def apply(self, backup: Backup | None) -> str:
        self.check()
        with self.storage.open_writable(self.file) as file:
            if backup is not None:
                backup.save(f"{self.file}@{self.offset}", pieces_of(file, self.offset, self.end))
            body = self.offset + HEADER_LENGTH
            for start in reversed(range(body, self.end, COPY_BYTES)):
                file.write_at(start, bytes(min(COPY_BYTES, self.end - start)))
            file.sync()
            file.write_at(self.offset, bytes(HEADER_LENGTH))
            file.sync()
        return f"{self.file}: {self.after}"

    def undo(self) -> dict[str, Any]:
        return {
            "kind": "put",
            "from": f"{self.file}@{self.offset}",
            "offset": self.offset,
            "size": self.end - self.offset,
        }


def _state_text(state: tuple[int, int]) -> str:
    return f"{state[0]} bytes with CRC-32 {state[1]:08x}"


def last_written(file: ReadableFile, start: int) -> int:
    """Return where the zeros at a file's end begin; ``start`` if everything from there on is zero."""
    end = start
    for at, block in nonzero_blocks(file, start, file.size()):
        end = at + len(block.rstrip(b"\0"))
    return end
