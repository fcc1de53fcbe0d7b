"""Aeron: its archive and cluster on disk, its transport between processes. :class:`Aeron` is a client of a media
driver: ``from everlog.aeron import Aeron``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.aeron.transport.client.aeron import Aeron
    from everlog.aeron.transport.client.options import ClientOptions

__all__ = ["Aeron", "ClientOptions"]


def __getattr__(name: str) -> Any:
    # Import cost: who only reads archives needs no client.
    if name == "Aeron":
        from everlog.aeron.transport.client.aeron import Aeron

        return Aeron
    if name == "ClientOptions":
        from everlog.aeron.transport.client.options import ClientOptions

        return ClientOptions
    raise AttributeError(f"module 'everlog.aeron' has no attribute {name!r}")
