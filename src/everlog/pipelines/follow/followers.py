"""Opens a store's follower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everlog.core.family.record import load
from everlog.core.following import Follower, StoreFollower
from everlog.discovery import FoundStore
from everlog.stores import family_named, open_store, storage_of


def open_follower(store: FoundStore, options: Mapping[str, Any]) -> Follower:
    """The follower of the store's family, or one that lists its streams at each poll. Raises what opening the store
    raises."""
    name = family_named(store.family).follower
    if name is None:
        return StoreFollower(open_store(store.path, family=store.family, **options))
    found: Follower = load(name)(storage_of(store.path), options)
    return found
