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
    """Frees what an export has copied. One object serves any number of stores, because it has no state. ``subscriber``
    is the export's own subscriber, in families that have subscribers."""

    @abstractmethod
    def plan(self, store: Store, stream: str, *, last: int, end: int, subscriber: str) -> PurgePlan:
        """Return what can be freed of a stream whose records up to the one at ``last`` are exported. The next record is
        at ``end`` or after it. Changes nothing."""

    @abstractmethod
    def free(self, path: str, stream: str, until: str, subscriber: str) -> int:
        """Delete what holds no record from ``until`` on, and return how many files went. A crash leaves what a crash of
        the family's own purge leaves; the same call finishes it. Raises as opening the store for writing does."""
