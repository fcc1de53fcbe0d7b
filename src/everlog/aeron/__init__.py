"""Aeron: archives and clusters on disk, and transport between processes. :class:`Aeron` is a media driver's client:
``from everlog.aeron import Aeron``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.aeron.transport.client.aeron import Aeron as Aeron
    from everlog.aeron.transport.client.options import ClientOptions as ClientOptions
else:
    _homes = {
        "Aeron": "everlog.aeron.transport.client.aeron",
        "ClientOptions": "everlog.aeron.transport.client.options",
    }
    # Imported on first use: reading archives needs no client.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
