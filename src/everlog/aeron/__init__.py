"""Aeron: its archive and cluster on disk, its transport between processes. :class:`Aeron` is a client of a media
driver: ``from everlog.aeron import Aeron``."""

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
    # Name to module: reading archives needs no client.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
