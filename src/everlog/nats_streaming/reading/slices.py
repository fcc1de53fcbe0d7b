"""Lists a channel's folder, and describes the state of its slices."""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.nats_streaming.format.layouts import FileVersion
from everlog.nats_streaming.format.names import (
    SUBS_FILE,
    channel_text,
    is_message_file,
    parse_slice_name,
    slice_file,
)
from everlog.nats_streaming.reading.walk_status import NO_BOUND


class Slice(NamedTuple):
    """A slice's pair of files. Names are relative to the store; ``dat_size`` or ``idx_size`` is ``None`` if the file is
    missing."""

    number: int
    is_bak: bool
    dat: str
    idx: str
    dat_size: int | None
    idx_size: int | None

    @property
    def is_unfinished(self) -> bool:
        """Whether a file's version word is incomplete, as when a server is just creating the file."""
        return any(size is not None and size < FileVersion.size for size in (self.dat_size, self.idx_size))


MAX_RELISTINGS = 3
SECONDS_BETWEEN_LISTINGS = (0.001, 0.004, 0.016)
SECONDS_FOR_ALL = 0.5
"""The longest wait for all channels of a store together: a power cut may have left unfinished slices in each."""


@dataclass(slots=True)
class Patience:
    """The time left for waiting, shared by the channels of a store."""

    left_s: float = SECONDS_FOR_ALL

    def wait(self, seconds: float) -> bool:
        """Wait if enough time is left; return whether it was."""
        if self.left_s < seconds:
            return False
        self.left_s -= seconds
        time.sleep(seconds)
        return True


class ChannelFolder(NamedTuple):
    """A channel's files. ``others`` are unrelated names; ``bad_names`` look like slices without a valid number."""

    name: str
    folder: str
    slices: tuple[Slice, ...]
    orphan_indexes: tuple[Slice, ...]
    subs_size: int | None
    bad_names: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the folder has no file that a server wrote."""
        return not self.slices and not self.orphan_indexes and self.subs_size is None


def list_channel(storage: Storage, folder: str, patience: Patience) -> ChannelFolder:
    """List a channel's folder. A server creates and deletes the two files of a slice one after the other: if an index
    has no ``.dat`` file, or a file no version word, the folder is listed again after a wait. Raises
    :class:`~everlog.errors.StoreUnavailable`."""
    found = _list_channel(storage, folder)
    for wait in SECONDS_BETWEEN_LISTINGS:
        if not found.orphan_indexes and not any(s.is_unfinished for s in found.slices):
            break
        if not patience.wait(wait):
            break
        found = _list_channel(storage, folder)
    return found


def is_gone(storage: Storage, piece: Slice) -> bool:
    """Whether a file of a listed slice has been deleted since."""
    there = storage.exists(piece.dat) and (piece.idx_size is None or storage.exists(piece.idx))
    return piece.dat_size is not None and not there


def _list_channel(storage: Storage, folder: str) -> ChannelFolder:
    sizes: dict[tuple[int, bool], dict[str, tuple[str, int]]] = {}
    subs_size = None
    bad_names: list[str] = []
    others: list[str] = []
    for entry in storage.entries(folder):
        if entry.name == SUBS_FILE and entry.is_file:
            subs_size = entry.size
            continue
        name = parse_slice_name(entry.name) if entry.is_file else None
        if name is None:
            (bad_names if entry.is_file and is_message_file(entry.name) else others).append(entry.name)
            continue
        files = sizes.setdefault((name.number, name.is_bak), {})
        if entry.name == slice_file(name.number, name.kind, is_bak=name.is_bak) or (
            # A server reads msgs.07.dat too, with the index msgs.7.idx.
            name.kind == "dat" and name.kind not in files
        ):
            files[name.kind] = (entry.name, entry.size)
        else:
            others.append(entry.name)
    slices: list[Slice] = []
    orphans: list[Slice] = []
    for (number, is_bak), files in sorted(sizes.items()):
        dat = files.get("dat") or (slice_file(number, "dat", is_bak=is_bak), None)
        idx = files.get("idx") or (slice_file(number, "idx", is_bak=is_bak), None)
        found = Slice(number, is_bak, f"{folder}/{dat[0]}", f"{folder}/{idx[0]}", dat[1], idx[1])
        (orphans if dat[1] is None else slices).append(found)
    return ChannelFolder(
        channel_text(folder),
        folder,
        tuple(slices),
        tuple(orphans),
        subs_size,
        tuple(sorted(bad_names)),
        tuple(sorted(others)),
    )


class Extent(NamedTuple):
    """Bytes ``start`` to ``end`` of a ``.dat`` file, with contiguous records. Records with sequence ``below`` or higher
    were written again later and do not count."""

    start: int
    end: int
    below: int = NO_BOUND


@dataclass(frozen=True, slots=True)
class SliceState:
    """A slice's totals. ``indexed``: its index is good and decides; otherwise the records were read one by one.
    ``byte_count`` is counted as the server does. ``faults`` concern the slice as a whole."""

    slice: Slice
    indexed: bool
    count: int = 0
    byte_count: int = 0
    first: int = 0
    last: int = 0
    first_timestamp_ns: int = 0
    max_timestamp_ns: int = 0
    extents: tuple[Extent, ...] = ()
    faults: tuple[Fault, ...] = field(default=())

    @property
    def data_end(self) -> int:
        """The offset after the last extent in the ``.dat`` file."""
        return self.extents[-1].end if self.extents else 4


class Part(NamedTuple):
    """The sequences that a slice contributes to its channel: ``first <= sequence < end``."""

    state: SliceState
    first: int
    end: int


def arrange(states: list[SliceState]) -> list[Part]:
    """Return the parts in sequence order. If slices overlap, the one with the higher number wins; ``.bak`` slices come
    last."""
    full = [s for s in states if s.count]
    ordered = sorted(full, key=lambda s: s.first)
    if all(a.last < b.first for a, b in itertools.pairwise(ordered)):
        return [Part(s, s.first, s.last + 1) for s in ordered]
    edges = sorted({s.first for s in full} | {s.last + 1 for s in full})
    parts: list[Part] = []
    holders: list[tuple[bool, int, int]] = []  # a heap: the winner is first; others may have ended already
    begun = 0
    for first, end in itertools.pairwise(edges):
        while begun < len(ordered) and ordered[begun].first <= first:
            piece = ordered[begun].slice
            heapq.heappush(holders, (piece.is_bak, -piece.number, begun))
            begun += 1
        while holders and ordered[holders[0][2]].last < first:
            heapq.heappop(holders)
        if not holders:
            continue
        owner = ordered[holders[0][2]]
        if parts and parts[-1].state is owner and parts[-1].end == first:
            parts[-1] = Part(owner, parts[-1].first, end)
        else:
            parts.append(Part(owner, first, end))
    return parts


def slice_gone(state: SliceState, stream: str) -> Fault:
    """Make the fault for a slice that was deleted after the channel was listed."""
    return Fault(
        "slice-gone-while-read",
        state.slice.dat,
        None,
        "no such file",
        f"{state.slice.dat_size} bytes, as when the folder was listed",
        f"{state.count} messages, sequences {state.first} to {state.last}, which a server's limits removed",
        "none; to keep messages, raise the server's limits",
        stream=stream,
        address=str(state.first),
    )
