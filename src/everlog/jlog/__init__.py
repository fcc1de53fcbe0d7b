"""JLog: a durable queue that is a folder. Any number of writers and subscribers, in any number of processes, no server.

>>> from everlog import jlog
>>> jlog.create("/var/spool/orders")                      # doctest: +SKIP
>>> with jlog.Writer("/var/spool/orders") as writer:      # doctest: +SKIP
...     writer.append(b"first")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.core.durability import Durability as Durability
    from everlog.jlog.addresses import Address as Address
    from everlog.jlog.async_subscriber import AsyncSubscriber as AsyncSubscriber
    from everlog.jlog.creation import alter as alter
    from everlog.jlog.creation import create as create
    from everlog.jlog.message import Message as Message
    from everlog.jlog.removal import clean as clean
    from everlog.jlog.subscriber import Subscriber as Subscriber
    from everlog.jlog.subscriptions import add_subscriber as add_subscriber
    from everlog.jlog.subscriptions import list_subscribers as list_subscribers
    from everlog.jlog.subscriptions import remove_subscriber as remove_subscriber
    from everlog.jlog.writer import Writer as Writer

_HOMES = {
    "Address": "everlog.jlog.addresses",
    "AsyncSubscriber": "everlog.jlog.async_subscriber",
    "Durability": "everlog.core.durability",
    "Message": "everlog.jlog.message",
    "Subscriber": "everlog.jlog.subscriber",
    "Writer": "everlog.jlog.writer",
    "add_subscriber": "everlog.jlog.subscriptions",
    "alter": "everlog.jlog.creation",
    "clean": "everlog.jlog.removal",
    "create": "everlog.jlog.creation",
    "list_subscribers": "everlog.jlog.subscriptions",
    "remove_subscriber": "everlog.jlog.subscriptions",
}
"""Name to module: each is imported when it is asked for, so that reading a journal costs no import of what writes."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
