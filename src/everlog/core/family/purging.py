"""What a family implements so that exported records can be freed in its stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from everlog.core.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """``files``, of ``byte_count`` bytes, can go: they hold no record from the address ``until`` on. ``refused``: why
    nothing can go."""

    until: str = ""
    files: tuple[str, ...] = ()
    byte_count: int = 0
    refused: str | None = None


class Purging(ABC):
    """Without state: an object serves any number of stores. ``subscriber`` is the export's own, for families that have
    subscribers."""

    @abstractmethod
    def plan(self, store: Store, stream: str, *, last: int, end: int, subscriber: str) -> PurgePlan:
        """What can go of a stream whose records from the first to the one at ``last`` are exported, the next one being
        at ``end`` or after it. Changes nothing."""

    @abstractmethod
    def free(self, path: str, stream: str, until: str, subscriber: str) -> int:
        """Delete what holds no record from ``until`` on, and return how many files went. A crash leaves what a crash of
        the family's own purge leaves; the same call finishes it. Raises as opening the store for writing does."""
