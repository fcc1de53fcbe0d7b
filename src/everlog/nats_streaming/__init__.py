"""NATS Streaming file stores (server 0.25): read with :func:`everlog.open_store`, written by this package.

>>> from everlog import nats_streaming
>>> with nats_streaming.open_channel("/var/lib/stan", "orders") as orders:    # doctest: +SKIP
...     orders.append(b"first")
1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.core.files.durability import Durability as Durability
    from everlog.nats_streaming.writing.channel_writer import ChannelWriter as ChannelWriter
    from everlog.nats_streaming.writing.store_writer import StoreWriter as StoreWriter
    from everlog.nats_streaming.writing.store_writer import open_channel as open_channel
else:
    _homes = {
        "ChannelWriter": "everlog.nats_streaming.writing.channel_writer",
        "Durability": "everlog.core.files.durability",
        "StoreWriter": "everlog.nats_streaming.writing.store_writer",
        "open_channel": "everlog.nats_streaming.writing.store_writer",
    }
    # Name to module. Each is imported on first use, so that reading a store doesn't import the writer.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
