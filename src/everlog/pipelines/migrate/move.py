"""The instructions for moving one channel to JetStream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from everlog.core.options import check_choice
from everlog.errors import UsageError
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.migrate.consumers import REDELIVER, PendingMode, Subscriptions
from everlog.pipelines.scan.options import OnFault

StorageKind = Literal["file", "memory"]
"""Where JetStream keeps the stream."""
MAX_REPLICAS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Settings of the new stream. ``finish``: create consumers and open the stream to its subject at the end; otherwise
    the stream stays closed, so that a later run adds the rest. ``pending``: ``redeliver`` or ``skip`` messages that
    were sent to subscribers but not acknowledged. Limits are JetStream's (``max_age_ns`` counts from the migration),
    ``None`` for no limit."""

    replicas: int = 1
    storage: StorageKind = "file"
    pending: PendingMode = REDELIVER
    finish: bool = True
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age_ns: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= MAX_REPLICAS:
            raise UsageError("replicas", found=str(self.replicas), expected=f"1 to {MAX_REPLICAS}")
        check_choice("storage", self.storage, get_args(StorageKind))
        check_choice("pending", self.pending, get_args(PendingMode))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMove:
    """What a task needs to move a channel. ``first`` and ``last`` are the sequences that the stream is to span;
    ``first`` is ``last + 1`` for a channel without messages. ``other_names``: names that the stream may have if it was
    created when the store had other channels. ``refusal``: why it can't be moved, found while planning."""

    store: str
    options: Mapping[str, Any]
    on_fault: OnFault
    channel: str
    cluster: str
    stream: str
    subject: str
    first: int
    last: int
    byte_count: int
    subscriptions: Subscriptions
    settings: StreamSettings
    connection: Connection
    other_names: tuple[str, ...] = ()
    refusal: UsageError | None = None
