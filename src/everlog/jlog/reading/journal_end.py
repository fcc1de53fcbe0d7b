"""Where a journal ends."""

from __future__ import annotations

from everlog.core.report import Fault
from everlog.core.store import Store
from everlog.jlog.format.addresses import MARKER_BITS
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.metastore import read_metastore
from everlog.jlog.reading.segments import list_segments


def journal_end(store: Store) -> int:
    """The address after the last message, found by reading the last segment that has messages; of a journal without
    messages the start of the segment that its metastore names."""
    metastore = read_metastore(store.storage)
    for segment in reversed(list_segments(store.storage.entries())):
        address: str | None = None
        for batch in store.scan(STREAM, columns=["address"], start=segment.log << MARKER_BITS, on_fault=_ignore):
            address = batch.to_list("address")[-1] if batch.row_count else address
        if address is not None:
            return store.parse_address(address) + 1
    return (metastore.storage_log or 0) << MARKER_BITS


def _ignore(fault: Fault) -> None:
    """Callers that read the records report damage."""
