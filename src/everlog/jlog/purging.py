"""Frees exported messages of a journal: the export's own subscriber moves to the last exported message, then the
segments go that no subscriber needs any more. Other subscribers keep what they have not read."""

from __future__ import annotations

from contextlib import suppress

from everlog.core.family.purging import PurgePlan, Purging
from everlog.core.store import Store
from everlog.errors import SubscriberExists
from everlog.jlog.format.addresses import MARKER_BITS, Address
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.journal import Journal
from everlog.jlog.subscribing.removal import remove_consumed
from everlog.jlog.subscribing.subscriptions import add_subscriber, read_checkpoint, write_checkpoint


class JournalPurging(Purging):
    """``until`` is the last exported message."""

    def plan(self, store: Store, stream: str, *, last: int, end: int, subscriber: str) -> PurgePlan:
        until, storage = store.format_address(last), store.storage
        journal = Journal.read(storage)
        others = [cp for cp in read_checkpoints(storage, storage.names()) if cp.subscriber != subscriber]
        if any(checkpoint.log is None for checkpoint in others):
            reason = "a subscriber's checkpoint can't be read: nobody knows what it needs"
            return PurgePlan(until=until, refused=reason)
        needed = [cp.log for cp in others if cp.log is not None]
        limit = min([last >> MARKER_BITS, journal.metastore.storage_log or 0, *needed])
        going = [segment for segment in journal.segments if segment.log < limit]
        return PurgePlan(
            until=until,
            files=tuple(segment_name(segment.log) for segment in going),
            byte_count=sum(segment.byte_count for segment in going),
        )

    def free(self, path: str, stream: str, until: str, subscriber: str) -> int:
        """See :class:`~everlog.core.family.purging.Purging`. The subscriber's checkpoint is on disk before a segment
        goes."""
        with suppress(SubscriberExists):
            add_subscriber(path, subscriber)
        last = Address.parse(until)
        if read_checkpoint(path, subscriber) < last:
            write_checkpoint(path, subscriber, last, sync=True)
        return len(remove_consumed(path, below=last.log))
