"""Appenders: compiled, or their twins (:mod:`everlog.aeron.transport.client.publication_twin`), which say what they
do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.client.appending import ADMIN_ACTION as ADMIN_ACTION
from everlog.aeron.transport.client.appending import BACK_PRESSURED as BACK_PRESSURED
from everlog.aeron.transport.client.appending import CLOSED as CLOSED
from everlog.aeron.transport.client.appending import MAX_POSITION_EXCEEDED as MAX_POSITION_EXCEEDED
from everlog.aeron.transport.client.appending import NOT_CONNECTED as NOT_CONNECTED
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.claim_twin import BufferClaim as BufferClaim
    from everlog.aeron.transport.client.exclusive_twin import ExclusiveAppender as ExclusiveAppender
    from everlog.aeron.transport.client.publication_twin import ConcurrentAppender as ConcurrentAppender
else:
    _loaded = load("everlog.aeron.transport.client._publication", "everlog.aeron.transport.client.exclusive_twin")
    BufferClaim = _loaded.BufferClaim
    ConcurrentAppender, ExclusiveAppender = _loaded.ConcurrentAppender, _loaded.ExclusiveAppender
