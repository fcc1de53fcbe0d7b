"""Slices and subscriptions of channels, for an overview of many stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everlog.core.family.overview import ReaderState, StoreOverview
from everlog.core.store import Store


def overview(store: Store) -> StoreOverview:
    """What ``info`` reports of the channels. Raises as that does."""
    channels = store.info()["channels"]
    sizes = {
        name: [(one["dat_size"] or 0) + (one["idx_size"] or 0) for one in channel["slices"]]
        for name, channel in channels.items()
    }
    readers = tuple(reader for name, channel in channels.items() for reader in _readers(name, channel))
    return StoreOverview(segment_sizes=sizes, readers=readers)


def _readers(name: str, channel: dict[str, Any]) -> Iterator[ReaderState]:
    last = channel["last_sequence"]
    for one in channel["subscriptions"]:
        yield ReaderState(
            stream=name,
            reader=one["durable_name"] or one["qgroup"] or one["client_id"],
            kind=one["kind"],
            at=str(one["last_sent"]),
            lag_records=None if last is None else max(last - one["last_sent"], 0),
            pending=len(one["pending"]),
        )
