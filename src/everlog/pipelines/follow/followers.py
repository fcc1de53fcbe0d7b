"""Which follower a store has. A family without its own is followed by looking at its streams anew."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from everlog.core.following import Follower, StoreFollower
from everlog.discovery import FoundStore
from everlog.stores import open_store, storage_of

FOLLOWERS: dict[str, tuple[str, str]] = {
    "aeron-archive": ("everlog.aeron.archive.following", "ArchiveFollower"),
    "aeron-cluster": ("everlog.aeron.cluster.following", "ClusterFollower"),
    "jlog": ("everlog.jlog.following", "JournalFollower"),
    "nats-streaming": ("everlog.nats_streaming.following", "ChannelFollower"),
}
"""Family to the module and class of its follower."""

UNFOLLOWED = {
    "aeron-driver": "its log buffers are used again and again, so that records would be missed: follow an archive"
}
"""Families that live queries leave out, and why."""


def open_follower(store: FoundStore, options: Mapping[str, Any]) -> Follower:
    """Raises what opening the store raises."""
    if store.family not in FOLLOWERS:
        return StoreFollower(open_store(store.path, family=store.family, **options))
    module, name = FOLLOWERS[store.family]
    found: Follower = getattr(importlib.import_module(module), name)(storage_of(store.path), options)
    return found
