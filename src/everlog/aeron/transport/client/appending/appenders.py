"""Appenders: compiled, or their Python twins in :mod:`everlog.aeron.transport.client.appending.publication_twin`, which
document them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.client.appending.results import ADMIN_ACTION as ADMIN_ACTION
from everlog.aeron.transport.client.appending.results import BACK_PRESSURED as BACK_PRESSURED
from everlog.aeron.transport.client.appending.results import CLOSED as CLOSED
from everlog.aeron.transport.client.appending.results import MAX_POSITION_EXCEEDED as MAX_POSITION_EXCEEDED
from everlog.aeron.transport.client.appending.results import NOT_CONNECTED as NOT_CONNECTED
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.appending.claim_twin import BufferClaim as BufferClaim
    from everlog.aeron.transport.client.appending.exclusive_twin import ExclusiveAppender as ExclusiveAppender
    from everlog.aeron.transport.client.appending.publication_twin import ConcurrentAppender as ConcurrentAppender
else:
    _loaded = load(
        "everlog.aeron.transport.client.appending._publication",
        "everlog.aeron.transport.client.appending.exclusive_twin",
    )
    BufferClaim = _loaded.BufferClaim
    ConcurrentAppender, ExclusiveAppender = _loaded.ConcurrentAppender, _loaded.ExclusiveAppender
