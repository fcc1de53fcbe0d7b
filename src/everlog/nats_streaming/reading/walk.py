"""The walkers, compiled or in plain Python. :mod:`everlog.nats_streaming.reading.walk_twin` documents them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.nats_streaming.reading.walk_twin import IndexWalker as IndexWalker
    from everlog.nats_streaming.reading.walk_twin import RecordWalker as RecordWalker
else:
    _module = load("everlog.nats_streaming.reading._walk", "everlog.nats_streaming.reading.walk_twin")
    IndexWalker = _module.IndexWalker
    RecordWalker = _module.RecordWalker
