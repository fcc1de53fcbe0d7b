"""JLog: a durable queue that is a folder. Any number of writers and subscribers, in any number of processes, no server.

>>> from everlog import jlog
>>> jlog.create("/var/spool/orders")                      # doctest: +SKIP
>>> with jlog.Writer("/var/spool/orders") as writer:      # doctest: +SKIP
...     writer.append(b"first")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.core.files.durability import Durability as Durability
    from everlog.jlog.format.addresses import Address as Address
    from everlog.jlog.format.message import Message as Message
    from everlog.jlog.subscribing.async_subscriber import AsyncSubscriber as AsyncSubscriber
    from everlog.jlog.subscribing.removal import clean as clean
    from everlog.jlog.subscribing.subscriber import Subscriber as Subscriber
    from everlog.jlog.subscribing.subscriptions import add_subscriber as add_subscriber
    from everlog.jlog.subscribing.subscriptions import list_subscribers as list_subscribers
    from everlog.jlog.subscribing.subscriptions import remove_subscriber as remove_subscriber
    from everlog.jlog.writing.creation import alter as alter
    from everlog.jlog.writing.creation import create as create
    from everlog.jlog.writing.writer import Writer as Writer
else:
    _homes = {
        "Address": "everlog.jlog.format.addresses",
        "AsyncSubscriber": "everlog.jlog.subscribing.async_subscriber",
        "Durability": "everlog.core.files.durability",
        "Message": "everlog.jlog.format.message",
        "Subscriber": "everlog.jlog.subscribing.subscriber",
        "Writer": "everlog.jlog.writing.writer",
        "add_subscriber": "everlog.jlog.subscribing.subscriptions",
        "alter": "everlog.jlog.writing.creation",
        "clean": "everlog.jlog.subscribing.removal",
        "create": "everlog.jlog.writing.creation",
        "list_subscribers": "everlog.jlog.subscribing.subscriptions",
        "remove_subscriber": "everlog.jlog.subscribing.subscriptions",
    }
    # Name to module. Each is imported on first use, so that reading a journal doesn't import the writers.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
