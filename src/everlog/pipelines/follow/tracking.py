"""Follows the stores of a live query: which exist, which streams they have, and how far these reach."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from everlog.core.files.storage import is_folder, is_missing
from everlog.core.following import Follower, StreamExtent
from everlog.core.options import option_names
from everlog.discovery import FoundStore, find_stores, identity
from everlog.errors import CorruptData, EverlogError, FileChanged, NotAStore, StoreUnavailable, UnsupportedVersion
from everlog.pipelines.follow.followers import open_follower
from everlog.pipelines.scan.columns import FamilyOptions
from everlog.pipelines.scan.options import SKIP, ScanOptions
from everlog.stores import family_named, store_class

POLL_ATTEMPTS = 3
"""Attempts to poll a store that is being changed: files may vanish between listing and opening."""
SECONDS_BETWEEN_ATTEMPTS = (0.002, 0.02)

LOG = logging.getLogger("everlog.spark")


def store_key(path: str) -> str:
    """A store's name in offsets: its absolute path, independent of the driver's working folder."""
    path = path.removeprefix("file://")
    return path if "://" in path else os.path.abspath(path)


@dataclass(slots=True)
class TrackedStore:
    """A store and its streams at the last poll; ``is_gone``: the store was missing then."""

    store: FoundStore
    options: Mapping[str, Any]
    follower: Follower | None = None
    extents: dict[str, StreamExtent] = field(default_factory=dict)
    is_gone: bool = False
    ends: dict[str, int] = field(default_factory=dict)
    """The address of the option ``end`` in each stream."""
    rewritten: dict[str, bool] = field(default_factory=dict)
    """Streams that were truncated and have grown again (false) or were recreated (true). The reader must handle them,
    and removes them from here."""
    came_back: bool = False
    """Whether the store was missing before the last poll."""


class Tracker:
    """Follows all stores of a query's paths. It looks for new stores every ``discovery_s`` seconds, for new streams at
    each poll."""

    def __init__(self, scan: ScanOptions, options: FamilyOptions, discovery_s: float) -> None:
        self._scan = scan
        self._options = options
        self._discovery_s = discovery_s
        self._discovered_at: float | None = None
        self._left_out: set[str] = set()
        self._missed: set[str] = set()
        self._keys: dict[str, str] = {}
        self.stores: dict[str, TrackedStore] = {}

    def know(self, keys: Collection[str]) -> dict[str, str]:
        """Register the keys of an offset: a store that another path leads to, such as a new link, keeps its key.
        Returns the stores that had another key until now, as old key -> new key."""
        renamed = {}
        for key in keys:
            if key in self.stores:
                continue  # avoid resolving links for each store in each batch
            known = self._keys.setdefault(identity(key), key)
            if known not in keys and known in self.stores:
                self._keys[identity(key)] = renamed[known] = key
                self.stores[key] = self.stores.pop(known)
        return renamed

    def poll(self) -> dict[str, TrackedStore]:
        """All stores in their current state, by key. Raises :class:`CorruptData` for an unreadable store, unless
        ``onFault`` is ``skip``."""
        now = time.monotonic()
        if self._discovered_at is None or now - self._discovered_at >= self._discovery_s:
            self._discover()
            self._discovered_at = now
        for tracked in self.stores.values():
            self._poll_store(tracked)
        return self.stores

    def tracked(self, key: str) -> TrackedStore | None:
        """The store with this key, polled if it was not yet."""
        if self._discovered_at is None:
            self.poll()
        return self.stores.get(key)

    def _report_missed(self, path: str, error: EverlogError) -> None:
        """Warn once until the path is readable again: a folder that fails also hides new stores next to it."""
        if not isinstance(error, StoreUnavailable) or is_missing(error):
            LOG.debug("%s: no stores at present: %s", path, error)
        elif path not in self._missed:
            self._missed.add(path)
            LOG.warning("%s: can't search for new stores at present: %s", path, error)

    def _discover(self) -> None:
        found: list[FoundStore] = []
        for path in self._scan.paths:
            try:
                found += find_stores((path,), self._scan.family)
            except (NotAStore, StoreUnavailable) as error:
                # Stores found there before are still polled, and reported if they are missing.
                self._report_missed(path, error)
            else:
                self._missed.discard(path)
        for store in found:
            key = self._keys.setdefault(identity(store.path), store_key(store.path))
            if key in self.stores:
                continue
            why = family_named(store.family).not_followed
            if why is None and store.family not in self._options:
                why = (
                    f"the query began without a store of family {store.family}, so its table has no columns for "
                    "it; start the query again"
                )
            if why is not None:
                if key not in self._left_out:
                    self._left_out.add(key)
                    LOG.warning("%s left out: %s", store.path, why)
                continue
            options = {k: v for k, v in self._options[store.family].items() if k != "now_ns"}
            if self._scan.include_all and "include_all" in option_names(store_class(store.family).options_class):
                options["include_all"] = True
            self.stores[key] = TrackedStore(store, options)

    def _poll_store(self, tracked: TrackedStore) -> None:
        for attempt in range(POLL_ATTEMPTS):
            try:
                if tracked.follower is None:
                    tracked.follower = open_follower(tracked.store, tracked.options)
                extents = tracked.follower.poll()
            except (StoreUnavailable, FileChanged, NotAStore) as error:
                _forget(tracked)
                if not is_there(tracked.store.path):
                    tracked.extents, tracked.is_gone = {}, True
                    return
                if attempt == POLL_ATTEMPTS - 1:
                    raise
                LOG.debug("%s: polling again: %s", tracked.store.path, error)
                time.sleep(SECONDS_BETWEEN_ATTEMPTS[attempt])
            except (CorruptData, UnsupportedVersion) as error:
                _forget(tracked)
                if self._scan.on_fault != SKIP:
                    raise error.inside(tracked.store.path) from error
                if tracked.store.path not in self._left_out:
                    self._left_out.add(tracked.store.path)
                    LOG.warning("%s left out: %s", tracked.store.path, error)
                return
            else:
                tracked.extents = {
                    name: self._bounded(tracked, name, extent) for name, extent in extents.items() if self._wants(name)
                }
                for name, extent in tracked.extents.items():
                    if extent.is_rewritten or extent.was_recreated:
                        tracked.rewritten[name] = extent.was_recreated or tracked.rewritten.get(name, False)
                tracked.came_back, tracked.is_gone = tracked.is_gone, False
                return

    def _wants(self, stream: str) -> bool:
        patterns = self._scan.streams
        return not patterns or any(p == stream or fnmatchcase(stream, p) for p in patterns)

    def _bounded(self, tracked: TrackedStore, stream: str, extent: StreamExtent) -> StreamExtent:
        """Limit the extent to the option ``end``, moved to the next record, since an offset lies between records."""
        follower = tracked.follower
        if self._scan.end is None or follower is None:
            return extent
        end = tracked.ends.get(stream)
        if end is None:
            given = follower.parse_address(self._scan.end)
            if given >= extent.end:
                return extent
            end = tracked.ends[stream] = follower.align(stream, given, extent)
        return replace(extent, end=max(min(extent.end, end), extent.first))

    def close(self) -> None:
        """Close all files."""
        for tracked in self.stores.values():
            _forget(tracked)


def _forget(tracked: TrackedStore) -> None:
    if tracked.follower is not None:
        tracked.follower.close()
    tracked.follower = None


def is_there(path: str) -> bool:
    """Whether a store's folder exists. Raises :class:`StoreUnavailable` if that can't be determined."""
    if "://" not in path:
        return is_folder(path)
    from everlog.core.files.remote import is_folder_there

    return os.path.isdir(path) or is_folder_there(path)
