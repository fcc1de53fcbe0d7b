"""Follows the channels of a store while a server writes to it.

A server writes a batch of messages to a slice's ``.dat`` file before their index entries, so every indexed message is
complete. Polling an unchanged channel reads the two file sizes of its last slice and checks whether a next slice
exists. If the index grew, only its new entries are read. In all other cases (a damaged or missing index, ``.bak``
slices, limits) the changed slices are surveyed again, as :class:`NatsStreamingStore` does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.core.files.storage import Storage
from everlog.core.following import Cut, CutLimit, Follower, StreamExtent, cut_by_scan
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES
from everlog.errors import StoreUnavailable
from everlog.nats_streaming.format.names import channel_bytes, slice_file
from everlog.nats_streaming.reading.channels import Channel
from everlog.nats_streaming.reading.index import IndexFold, IndexLookup
from everlog.nats_streaming.reading.slices import ChannelFolder, Patience, Slice, SliceState, list_channel
from everlog.nats_streaming.reading.splitting import plan_splits
from everlog.nats_streaming.reading.survey import Surveyor
from everlog.nats_streaming.store import NatsStreamingStore

MAX_POLLS_WITHOUT_LISTING = 64
"""After this many polls a channel's folder is listed again even if its last slice is unchanged: a server may have
deleted the first slices."""


@dataclass(slots=True)
class _Followed:
    """A channel as of the last poll, with the fold of its last slice's index."""

    channel: Channel
    extent: StreamExtent
    last: Slice | None = None
    fold: IndexFold | None = None
    unlisted: int = 0


class ChannelFollower(Follower):
    """A :class:`Follower` whose streams are channels."""

    def __init__(self, storage: Storage, options: Mapping[str, Any]) -> None:
        self._storage = storage
        self._store = NatsStreamingStore.open(storage, options)
        self._has_fixed_clock = self._store.options.now_ns is not None
        self._followed: dict[str, _Followed] = {}
        self._folders: dict[str, str] = {}

    def poll(self) -> dict[str, StreamExtent]:
        self._storage.forget()
        reading = self._store.reading
        reading.patience = Patience()
        if not self._has_fixed_clock:
            reading.now_ns = time.time_ns()
        folders = sorted(entry.name for entry in self._storage.entries() if entry.is_dir)
        self._followed = {folder: self._followed[folder] for folder in folders if folder in self._followed}
        self._folders = {}
        found = {}
        for folder in folders:
            followed = self._poll_channel(folder)
            self._folders[followed.channel.name] = folder
            found[followed.channel.name] = followed.extent
        return found

    def _poll_channel(self, folder: str) -> _Followed:
        followed = self._followed.get(folder)
        # With max_age, messages expire although no file changes.
        if followed is not None and not self._store.reading.limits.max_age_ns and self._is_unchanged(followed):
            followed.unlisted += 1
            return followed
        try:
            listed = list_channel(self._storage, folder, self._store.reading.patience)
        except StoreUnavailable:
            if self._storage.exists(folder):
                raise
            listed = list_channel(self._storage, folder, self._store.reading.patience)  # recreated in between
        last, fold = self._grow(listed, followed)
        channel = Channel(self._store.reading, listed)
        end = channel.last + 1
        # An empty channel's next sequence is not on disk.
        is_unknown = not channel.parts
        extent = StreamExtent(end if is_unknown else channel.kept.first, end, is_unknown=is_unknown)
        made = self._followed[folder] = _Followed(channel, extent, last, fold)
        return made

    def _is_unchanged(self, followed: _Followed) -> bool:
        """Whether nothing was written to a channel since the last poll."""
        slices = [s for s in followed.channel.folder.slices if not s.is_bak]
        if not slices or followed.unlisted >= MAX_POLLS_WITHOUT_LISTING:
            return False
        last = slices[-1]
        try:
            sizes = self._storage.size(last.dat), self._storage.size(last.idx)
        except StoreUnavailable:
            return False
        folder = followed.channel.folder.folder
        is_last = not self._storage.exists(f"{folder}/{slice_file(last.number + 1, 'dat')}")
        return is_last and sizes == (last.dat_size, last.idx_size)

    def _grow(self, listed: ChannelFolder, before: _Followed | None) -> tuple[Slice | None, IndexFold | None]:
        """Cache the last slice's state, read from the new entries of its index. Returns ``(None, None)`` if the index
        does not suffice and the slice must be surveyed."""
        slices = [s for s in listed.slices if not s.is_bak]
        if not slices:
            return None, None
        last, reading = slices[-1], self._store.reading
        is_same = before is not None and before.last is not None and before.last.dat == last.dat
        surveyor = Surveyor(self._storage, listed.name, channel_bytes(listed.folder), reading.crc, reading.check)
        try:
            grown = surveyor.grow(last, before.fold if is_same and before is not None else None)
        except StoreUnavailable:
            return None, None  # deleted since the listing: the channel's survey lists the folder again
        if grown is None:
            return None, None
        state, fold = grown
        if is_same and before is not None and before.last is not None:
            reading.states.pop(before.last, None)
        reading.states[last] = state
        return last, fold

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """Cut by sequence numbers, and by bytes as recorded in the index or, without one, found by a scan.

        ``record_count`` is an upper bound: sequences may be missing.
        """
        if limit.records is not None:
            end = min(end, start + limit.records)
        if limit.byte_count is None:
            return Cut(end, end - start, 0)
        channel = self._followed[self._folders[stream]].channel
        room = limit.byte_count
        for part in channel.parts:
            first = max(start, part.first)
            if first >= end or part.end <= start:
                continue
            stop = min(end, part.end)
            if not part.state.indexed:
                return self._cut_by_scan(stream, start, end, limit)
            address, size = self._fitting(part.state, first, stop, room, at_least_one=room == limit.byte_count)
            room -= size
            if address < stop:
                return Cut(address, address - start, limit.byte_count - room)
        return Cut(end, end - start, limit.byte_count - room)

    def _fitting(self, state: SliceState, first: int, end: int, room: int, *, at_least_one: bool) -> tuple[int, int]:
        """The end sequence and the byte count of the slice's records from ``first`` on that fit into ``room`` bytes.
        ``at_least_one`` takes the first record even if it is larger."""
        with self._storage.open(state.slice.idx) as file:
            lookup = IndexLookup(file, state.count)
            low, high = lookup.at_sequence(first), lookup.at_sequence(end)
            if low == high:
                return end, 0
            begin = lookup.entry(low).offset
            stop = state.data_end if high == lookup.count else lookup.entry(high).offset
            if stop - begin <= room:
                return end, stop - begin
            # The last record that starts within the room ends beyond it, so the cut is before that record.
            at = max(lookup.after(begin + room) - 1, low + at_least_one)
            entry = lookup.entry(at) if at < lookup.count else None
            return (end, stop - begin) if entry is None else (int(entry.sequence), int(entry.offset) - begin)

    def _cut_by_scan(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        channel = self._followed[self._folders[stream]].channel
        split = Split(stream, start, end, 0, (channel.folder, channel.plan()))
        return cut_by_scan(self._store, split, limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Cut the channel as :meth:`NatsStreamingStore.splits` does, with its files as of the last poll."""
        channel = self._followed[self._folders[stream]].channel
        return plan_splits(channel, stream, start, end, split_bytes)

    def record_count(self, stream: str, start: int, end: int) -> int:
        """Return the length of the range: sequences are consecutive."""
        return max(end - start, 0)

    def parse_address(self, text: str) -> int:
        """Parse a sequence number. Raises :class:`~everlog.errors.UsageError` if ``text`` is not one."""
        return self._store.parse_address(text)

    def format_address(self, address: int) -> str:
        """Format a sequence number."""
        return self._store.format_address(address)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
