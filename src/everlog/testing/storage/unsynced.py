"""A file's content, for :mod:`everlog.testing.storage.crashing`: synced data, and changes that are not synced yet."""

from __future__ import annotations

import random

PAGE_BYTES = (512, 4096)

Change = tuple[int, bytes | None]
"""Bytes written at an offset, or a new size."""


def is_in_place(offset: int, length: int, size: int) -> bool:
    """Whether a write only changes existing bytes of one page, which systems do atomically."""
    page = min(PAGE_BYTES)
    return offset + length <= size and offset // page == (offset + max(length, 1) - 1) // page


class Inode:
    """A file, independent of its names. ``synced`` is what is certainly on disk, ``pending`` the changes since."""

    def __init__(self, data: bytes, mode: int) -> None:
        self.data = bytearray(data)
        self.synced = bytes(data)
        self.pending: list[Change] = []
        self.mode = mode
        self.locked_by: object | None = None
        self.held_by: object | None = None
        self.open_count = 0

    def change(self, change: Change) -> None:
        _apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            self._keep(change)
        self.pending = []

    def _keep(self, change: Change) -> None:
        kept = bytearray(self.synced)
        _apply(kept, change)
        self.synced = bytes(kept)

    @property
    def kept_length(self) -> int:
        """How many of the first bytes a power cut certainly keeps as they are."""
        return min([len(self.synced), *(offset for offset, _ in self.pending)])

    def copy(self) -> Inode:
        new = Inode(b"", self.mode)
        new.data, new.synced, new.pending = bytearray(self.data), self.synced, list(self.pending)
        return new

    def after_power_cut(self, rng: random.Random) -> bytes:
        """Return what is on disk after a power cut; the generator decides about the pending changes."""
        if not self.pending:
            return self.synced
        states = [self.synced]
        for change in self.pending:
            states.append(_applied(states[-1], change))
        how = rng.randrange(4)
        if how == 0:
            return states[0]
        if how == 1:
            return states[-1]
        page = rng.choice(PAGE_BYTES)
        return self._torn(states, page, rng) if how == 2 else _mixed(states, page, rng)

    def _torn(self, states: list[bytes], page: int, rng: random.Random) -> bytes:
        """Return the state after some changes and the first pages of the next one."""
        done = rng.randrange(len(self.pending))
        offset, data = self.pending[done]
        if data is None:
            return states[done]
        edges = range((offset // page + 1) * page, offset + len(data), page)
        kept = rng.choice(edges) - offset if edges else rng.choice((0, len(data)))
        return _applied(states[done], (offset, data[:kept])) if kept else states[done]


def _apply(data: bytearray, change: Change) -> None:
    offset, written = change
    end = offset if written is None else offset + len(written)
    if end > len(data):
        data.extend(bytes(end - len(data)))
    if written is None:
        del data[end:]
    else:
        data[offset:end] = written


def _applied(data: bytes, change: Change) -> bytes:
    new = bytearray(data)
    _apply(new, change)
    return bytes(new)


def _mixed(states: list[bytes], page: int, rng: random.Random) -> bytes:
    """Return data of a size that the file has had, with each page from any moment."""
    size = len(rng.choice(states))
    pages = []
    for start in range(0, size, page):
        length = min(page, size - start)
        pages.append(rng.choice(states)[start : start + length].ljust(length, b"\0"))
    return b"".join(pages)
