"""Repair: what is to be changed in a store is planned and shown first, then done, step by step.

Reading and verifying never change a byte; a plan does only when it is applied. Its steps are in an order in which the
store is, after a crash behind any of them, no worse than it was before, and planning again finishes the work.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from everlog.core.files.storage import LocalStorage, ReadableFile, Storage
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.files.zeros import nonzero_blocks
from everlog.core.report import Fault, Progress
from everlog.errors import FileChanged, WriteFailed

NOTHING = "nothing"
COPY_BYTES = 1 << 20
_ZEROS = bytes(COPY_BYTES)


class Backup(Protocol):
    """Where the bytes that a repair takes out, or writes over, are kept."""

    def save(self, name: str, pieces: Iterable[bytes]) -> None:
        """Keep bytes under a name; on return they are on disk. Raises :class:`WriteFailed`."""


class FolderBackup:
    """A backup in a folder of its own, which is made when the first bytes come. A name that is there already gets a
    number behind it: nothing is overwritten."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._storage: LocalWritableStorage | None = None

    @classmethod
    def beside(cls, store: str | os.PathLike[str]) -> FolderBackup:
        """``<store>.repair-<time, UTC>``, outside of the store's folder."""
        return cls(f"{os.path.abspath(store)}.repair-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")

    @property
    def is_made(self) -> bool:
        """Whether anything was kept."""
        return self._storage is not None

    def save(self, name: str, pieces: Iterable[bytes]) -> None:
        """See :class:`Backup`."""
        storage = self._open()
        free, number = name, 1
        while storage.exists(free):
            number += 1
            free = f"{name}.{number}"
        with storage.open_writable(free, create=True, exclusive=True, mode=0o600) as file:
            at = 0
            for piece in pieces:
                if piece is not _ZEROS and piece.count(0) < len(piece):  # zeros stay holes
                    file.write_at(at, piece)
                at += len(piece)
            if file.size() < at:
                file.truncate(at)
            file.sync()
        storage.sync_folder()

    def save_part(self, name: str, file: ReadableFile, start: int, end: int) -> None:
        """As :meth:`save`, of a part of a file; its holes are not read, and stay holes. Raises :class:`FileChanged`,
        too, when the file is shorter than ``end``."""
        storage = self._open()
        with storage.open_writable(_free_name(storage, name), create=True, exclusive=True, mode=0o600) as kept:
            for at, block in nonzero_blocks(file, start, end):
                kept.write_at(at - start, block)
            if kept.size() < end - start:
                kept.truncate(end - start)
            kept.sync()
        storage.sync_folder()
        if (size := file.size()) < end:
            raise FileChanged(file.name, offset=size, found=f"{size} bytes", expected=f"{end}")

    def link(self, storage: Storage, name: str) -> bool:
        """Keep a file by a second name for it, which costs no space: only for one that is then removed or replaced,
        for what is written into it would change here, too. On return the name is on disk. False where that can't be
        done: across file systems, or when the name is taken."""
        if not isinstance(storage, LocalStorage):
            return False
        kept = self._open()
        try:
            os.link(storage.path(name), kept.path(name), follow_symlinks=False)
        except OSError:
            return False
        kept.sync_folder()
        return True

    def _open(self) -> LocalWritableStorage:
        if self._storage is None:
            try:
                make_folder(self.path, 0o700)
            except WriteFailed as error:
                raise WriteFailed(
                    self.path,
                    found=error.found,
                    expected="a folder for the backup",
                    hint="choose another folder for it, or none",
                ) from error
            self._storage = LocalWritableStorage(self.path)
        return self._storage


def _free_name(storage: Storage, name: str) -> str:
    free, number = name, 1
    while storage.exists(free):
        number += 1
        free = f"{name}.{number}"
    return free


def keep_file(backup: Backup | None, storage: Storage, name: str) -> None:
    """Keep a whole file that is about to be removed or replaced, under its name: by a link where that can be, else a
    copy. Raises :class:`WriteFailed`, :class:`StoreUnavailable`."""
    if backup is None or (isinstance(backup, FolderBackup) and backup.link(storage, name)):
        return
    with storage.open(name) as file:
        backup.save(name, pieces_of(file))


def keep_part(backup: Backup, file: ReadableFile, name: str, start: int, end: int) -> None:
    """Keep a part of a file under a name. Raises :class:`WriteFailed`, and :class:`FileChanged` when the file is
    shorter than ``end``."""
    if isinstance(backup, FolderBackup):
        backup.save_part(name, file, start, end)
    else:
        backup.save(name, pieces_of(file, start, end))


def pieces_of(file: ReadableFile, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """A file's bytes from ``start`` on, in pieces of ``COPY_BYTES``; holes are not read. Raises :class:`FileChanged`
    when it is shorter than ``end``."""
    size = file.size() if end is None else end
    next_data = start
    for at in range(start, size, COPY_BYTES):
        length = min(COPY_BYTES, size - at)
        if at >= next_data:
            next_data = file.next_data(at)
        if at + length <= next_data:
            yield _ZEROS[:length]
            continue
        data = file.read_at(at, length)
        if len(data) < length:
            raise FileChanged(file.name, offset=at, found=f"{len(data)} bytes", expected=f"{length}")
        yield data


@dataclass(frozen=True, kw_only=True)
class RepairStep(ABC):
    """One change: of which file, what is there before it and after it, in words, and what is lost or moved by it."""

    file: str
    before: str
    after: str
    loses: str = NOTHING

    @abstractmethod
    def check(self) -> None:
        """Whether it can be done; changes nothing. Raises :class:`FileChanged` when the file is not as it was when the
        step was planned, :class:`StoreUnavailable` when a process has it open that must not."""

    @abstractmethod
    def apply(self, backup: Backup | None) -> str:
        """Do it, and say what was done. Raises as ``check`` does, and :class:`WriteFailed`; then, and after a crash,
        the store is no worse than before."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
        return {"file": self.file, "before": self.before, "after": self.after, "loses": self.loses}


@dataclass(frozen=True)
class RepairPlan:
    """What a repair would change, in order, and the faults that it leaves: ``unrepaired`` are those that nothing can
    mend, such as what is gone."""

    store: str
    family: str
    steps: tuple[RepairStep, ...]
    unrepaired: tuple[Fault, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Nothing is to be changed."""
        return not self.steps

    @property
    def loses(self) -> list[str]:
        """What is lost or moved, a line for each step that does so."""
        return [f"{step.file}: {step.loses}" for step in self.steps if step.loses != NOTHING]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
        return {
            "store": self.store,
            "family": self.family,
            "empty": self.is_empty,
            "steps": [step.to_dict() for step in self.steps],
            "remains": [fault.to_dict() for fault in self.unrepaired],
        }

    def apply(self, progress: Progress | None = None, *, backup: Backup | None = None) -> list[str]:
        """Do all steps; what was done, a line for each. All are checked before the first one is done, each one again
        just before it is.

        ``backup`` keeps the bytes that are taken out or written over, and the plan as ``plan.json``. Raises
        :class:`FileChanged` (plan again), :class:`StoreUnavailable` (a process has a file open that must not),
        :class:`WriteFailed`; a step that was not done has changed nothing.
        """
        for step in self.steps:
            step.check()
        if backup is not None and self.steps:
            backup.save("plan.json", [json.dumps(self.to_dict(), indent=1).encode()])
        done: list[str] = []
        for number, step in enumerate(self.steps):
            if progress is not None:
                progress(f"repair {step.file}", number, len(self.steps))
            done.append(step.apply(backup))
        return done
