"""From one offset to the next: what a batch may contain, and what was lost since the last one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from everlog.core.following import Cut, CutLimit, Follower, StreamExtent
from everlog.core.splits import Split
from everlog.discovery import FoundStore
from everlog.errors import DataLost, UsageError
from everlog.pipelines.follow.admission import Key, Pending, admit
from everlog.pipelines.follow.offsets import Mark, Marks, Offset, Range, ranges
from everlog.pipelines.follow.tracking import TrackedStore, Tracker, is_there, store_key
from everlog.pipelines.scan.live_options import EARLIEST, LATEST, LiveOptions
from everlog.pipelines.scan.options import ScanOptions

LOG = logging.getLogger("everlog.spark")

Ends = dict[str, dict[str, int]]
"""Store -> stream -> address."""


@dataclass(slots=True)
class Positions:
    """Finds a query's offsets. ``target``: the ends at which the query stops, with ``Trigger.AvailableNow``."""

    tracker: Tracker
    scan: ScanOptions
    live: LiveOptions
    target: Ends | None = None
    _reported: set[tuple[str, ...]] = field(default_factory=set)
    _turn: int = 0
    _initial: Offset | None = None

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins. Spark asks before each batch until one has records, so the answer
        stays the same. Raises :class:`UsageError` for an invalid address."""
        if self._initial is None:
            self._initial = self._found_initial()
        return self._initial

    def _found_initial(self) -> Offset:
        starting = self.live.starting
        if starting == EARLIEST:
            return Offset({}, is_initial=True)
        marks: Marks = {}
        given = {} if isinstance(starting, str) else {store_key(key): streams for key, streams in starting.items()}
        self.tracker.know(given)
        stores = self.tracker.poll()
        if missing := sorted(given.keys() - stores.keys()):
            known = ", ".join(stores)
            message = f"startingOffsets names {missing[0]}, which is not among the query's stores: {known}"
            raise UsageError("startingOffsets", found=missing[0], expected=f"one of {known}", message=message)
        for key, tracked in stores.items():
            follower = tracked.follower
            if follower is None:
                continue
            wanted = given.get(key, {})
            if unknown := sorted(wanted.keys() - tracked.extents.keys()):
                message = f"startingOffsets names stream {unknown[0]}, which {key} does not have"
                raise UsageError("startingOffsets", found=unknown[0], expected=f"a stream of {key}", message=message)
            for name, extent in tracked.extents.items():
                address = LATEST if starting == LATEST else wanted.get(name, EARLIEST)
                if address == LATEST and not extent.is_unknown:
                    marks.setdefault(key, {})[name] = Mark(follower.format_address(extent.end))
                elif address not in (EARLIEST, LATEST):
                    begin = self._aligned(key, follower, name, extent, address)
                    marks.setdefault(key, {})[name] = Mark(follower.format_address(begin))
        return Offset(marks, is_initial=True)

    def _aligned(self, key: str, follower: Follower, name: str, extent: StreamExtent, address: str) -> int:
        """Where to begin, given an address from ``startingOffsets``; 0 is before the very first record. Raises
        :class:`DataLost` if the stream's records begin after it or end before it."""
        at = follower.parse_address(address)
        begin = follower.align(name, at, extent)
        if not extent.is_unknown and (0 < at < extent.first or at > extent.end):
            text = follower.format_address
            found = f"records from {text(extent.first)} to {text(extent.end)}"
            where = f"startingOffsets: {key}: stream {name}"
            self._lost((key, name, address), where, found, address, f"begins at {text(begin)}")
        return begin

    def freeze(self) -> None:
        """Let the query end at the current ends."""
        stores = self.tracker.poll()
        self.target = {key: {name: r.end for name, r in t.extents.items()} for key, t in stores.items()}

    def ends(self) -> Offset:
        """The ends at the last poll."""
        marks: Marks = {}
        for key, tracked in self.tracker.stores.items():
            if tracked.follower is not None:
                text = tracked.follower.format_address
                marks[key] = {name: Mark(text(r.end)) for name, r in tracked.extents.items() if not r.is_unknown}
        return Offset(marks)

    def next(self, start: Offset, limit: CutLimit) -> Offset:
        """The end of the batch that begins at ``start``; equal to ``start`` if there is nothing new. Raises
        :class:`DataLost`."""
        for before, key in self.tracker.know(start.marks).items():
            if self.target is not None and before in self.target:
                self.target[key] = self.target.pop(before)
        stores = self.tracker.poll()
        marks: Marks = {store: dict(streams) for store, streams in start.marks.items()}
        self._report_gone(start, stores, marks)
        pending: list[Pending] = []
        origins: dict[Key, str | None] = {}
        for key, tracked in stores.items():
            if tracked.follower is None:
                continue
            for name, extent in tracked.extents.items():
                if extent.is_unknown:
                    continue
                known = start.marks.get(key, {}).get(name)
                at, origin = self._begin(key, tracked, name, extent, known, start.is_initial)
                end = extent.end if self.target is None else min(extent.end, self.target.get(key, {}).get(name, at))
                if at < end:
                    pending.append(Pending((key, name), at, end))
                    origins[key, name] = origin
                elif known is not None and origin not in (None, known.address):
                    marks[key][name] = Mark(tracked.follower.format_address(at), origin)
        self._turn += 1
        for (key, name), address in admit(pending, limit, self._cut, self._turn).items():
            text = self._follower(key).format_address(address)
            known = start.marks.get(key, {}).get(name)
            marks.setdefault(key, {})[name] = Mark(text, origins[key, name]).following(known)
        return Offset(marks, is_initial=start.is_initial and marks == start.marks)

    def _follower(self, key: str) -> Follower:
        follower = self.tracker.stores[key].follower
        assert follower is not None
        return follower

    def _cut(self, one: Pending, limit: CutLimit) -> Cut:
        key, name = one.key
        return self._follower(key).cut(name, one.start, one.end, limit)

    def _begin(
        self, key: str, tracked: TrackedStore, name: str, extent: StreamExtent, known: Mark | None, is_initial: bool
    ) -> tuple[int, str | None]:
        """Where the stream's next batch begins, and the same as text if it differs from the previous offset."""
        follower = tracked.follower
        assert follower is not None
        if known is None:
            tracked.rewritten.pop(name, None)
            at = extent.first
            if self.scan.start is not None:
                at = follower.align(name, follower.parse_address(self.scan.start), extent)
            return at, follower.format_address(at)
        at = follower.parse_address(known.address)
        was_recreated = tracked.rewritten.get(name)
        if was_recreated:
            return self._jump(key, follower, name, (at, extent.first), "a recreated stream under that name")
        if was_recreated is not None and extent.first < at <= extent.end:
            to, found = follower.align(name, at, extent), "truncated and then extended beyond its old end"
            return self._jump(key, follower, name, (at, to), found)
        if extent.first <= at <= extent.end:
            return at, known.address if is_initial else None
        if self.scan.end is not None and at <= follower.parse_address(self.scan.end) and at > extent.end:
            return at, None
        text = follower.format_address
        if at < extent.first:
            to, found = extent.first, f"purged: the first record is {text(extent.first)}"
        else:
            to = extent.first if tracked.came_back else follower.restart(at, extent)
            found = f"truncated or recreated: it ends at {text(extent.end)}"
        return self._jump(key, follower, name, (at, to), found)

    def _jump(self, key: str, follower: Follower, name: str, way: tuple[int, int], found: str) -> tuple[int, str]:
        """Skip lost records of a stream; ``way`` is from where to where."""
        at, to = map(follower.format_address, way)
        self._lost((key, name, at, to), f"{key}: stream {name}", found, at, f"continues at {to}")
        self.tracker.stores[key].rewritten.pop(name, None)
        return way[1], to

    def _report_gone(self, start: Offset, stores: dict[str, TrackedStore], marks: Marks) -> None:
        """Report stores and streams of ``start`` that are gone. A stream that was read to its known end is
        forgotten."""
        for key, streams in start.marks.items():
            tracked = stores.get(key)
            if tracked is None and is_there(key):
                continue  # the query reads other paths now
            follower = None if tracked is None else tracked.follower
            if tracked is None or tracked.is_gone:
                at = ", ".join(f"{name} at {mark.address}" for name, mark in list(streams.items())[:8])
                self._lost((key, "gone"), key, f"no store; streams were read up to: {at}", None, "waits for it")
            elif follower is not None:
                self._reported.discard((key, "gone"))
                for name in streams.keys() - tracked.extents.keys():
                    if self._is_left_out(name):
                        continue
                    at = streams[name].address
                    if follower.is_complete(name, follower.parse_address(at)):
                        del marks[key][name]
                        continue
                    self._lost((key, name, "gone"), f"{key}: stream {name}", "no such stream", at, "waits for it")

    def _is_left_out(self, stream: str) -> bool:
        patterns = self.scan.streams
        return bool(patterns) and not any(p == stream or fnmatchcase(stream, p) for p in patterns)

    def _lost(self, event: tuple[str, ...], where: str, found: str, address: str | None, otherwise: str) -> None:
        """Raise :class:`DataLost`, or with ``failOnDataLoss=false`` warn once."""
        expected = "the unread records" if address is None else f"records from {address} on"
        if self.scan.fail_on_data_loss:
            hint = f"records may be lost; failOnDataLoss=false {otherwise}"
            raise DataLost(where, found=found, expected=expected, hint=hint)
        if event not in self._reported:
            self._reported.add(event)
            LOG.warning("%s: data loss: %s; expected %s; the query %s", where, found, expected, otherwise)

    def splits(self, start: Offset, end: Offset) -> Iterator[tuple[FoundStore, Split]]:
        """What the batch between two offsets reads. Raises :class:`DataLost`."""
        self.tracker.know(end.marks)
        for one in ranges(start, end):
            tracked = self.tracker.tracked(one.store)
            if tracked is not None and not tracked.is_gone and tracked.follower is None:
                continue  # unreadable; a warning was logged
            if tracked is None or tracked.follower is None:
                self._lost((one.store, "gone"), one.store, "no store", None, "continues without it")
            elif one.stream not in tracked.extents:
                where = f"{one.store}: stream {one.stream}"
                self._lost((one.store, one.stream, "gone"), where, "no such stream", one.start, "continues without it")
            else:
                yield from self._of_range(one, tracked, tracked.follower)

    def _of_range(self, one: Range, tracked: TrackedStore, follower: Follower) -> Iterator[tuple[FoundStore, Split]]:
        extent = tracked.extents[one.stream]
        first = extent.first if one.start is None else follower.parse_address(one.start)
        end = follower.parse_address(one.end)
        text = follower.format_address
        where = f"{one.store}: stream {one.stream}"
        if first < extent.first < end or (first < end <= extent.first):
            found = f"purged: the first record is {text(extent.first)}"
            self._lost(
                (one.store, one.stream, text(first)), where, found, text(first), f"continues at {text(extent.first)}"
            )
        if end > extent.end:
            found = f"truncated or recreated: it ends at {text(extent.end)}"
            expected = text(max(first, extent.end))
            self._lost((one.store, one.stream, text(end)), where, found, expected, "continues with what is there")
        first, end = max(first, extent.first), min(end, extent.end)
        if first < end:
            for split in follower.splits(one.stream, first, end, split_bytes=self.scan.split_bytes):
                yield tracked.store, split
