"""How notes name a target: the same name for every spelling of a write's options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

RECORDING, CHANNEL, STREAM_ID = "recording", "channel", "streamId"
"""What may follow a store's path in the name of a target that is a part of the store."""
_PART = re.compile(rf"\?(?:{RECORDING}|{CHANNEL}|{STREAM_ID})=")


@dataclass(frozen=True, slots=True)
class TargetName:
    """``text``, and what else notes of earlier versions call it. ``store`` is the real path of its folder."""

    store: str
    text: str
    others: frozenset[str] = field(default_factory=frozenset)

    def is_named(self, text: str) -> bool:
        """Whether a note's target is this one."""
        return text == self.text or text in self.others

    def is_in_store(self, text: str) -> bool:
        """Whether a note's target is this store, or a part of it."""
        return text == self.store or (text.startswith(self.store) and bool(_PART.match(text, len(self.store))))
