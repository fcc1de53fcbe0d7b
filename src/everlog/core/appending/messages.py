"""Messages that are appended together."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Messages:
    """Messages in order: payloads and, for each, its time in nanoseconds or its reserved value (``None``: the
    default)."""

    payloads: list[bytes] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.payloads)

    def first(self, count: int) -> Messages:
        """The first ``count`` messages."""
        return Messages(self.payloads[:count], self.numbers[:count])

    def after(self, count: int) -> Messages:
        """All but the first ``count`` messages."""
        return Messages(self.payloads[count:], self.numbers[count:])
