"""Segments and subscribers of a journal, for an overview of many stores."""

from __future__ import annotations

from everlog.core.family.overview import ReaderState, StoreOverview
from everlog.core.store import Store
from everlog.jlog.format.faults import STREAM


def overview(store: Store) -> StoreOverview:
    """What ``info`` reports of a journal. Raises as that does."""
    info = store.info()
    return StoreOverview(
        segment_sizes={STREAM: [segment["bytes"] or 0 for segment in info["segments"]]},
        readers=tuple(
            ReaderState(
                stream=STREAM,
                reader=one["name"],
                kind="transient subscriber" if one["transient"] else "subscriber",
                at=one["checkpoint"],
                lag_records=one["lag_messages"],
                lag_bytes=one["lag_bytes"],
            )
            for one in info["subscribers"]
        ),
    )
