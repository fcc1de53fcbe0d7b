"""How notes name a target, so that it is the same one however a write's options spell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

DEFAULT_CHANNEL, DEFAULT_STREAM_ID = "aeron:ipc", 1001
RECORDING = "recording"
WORDS: Mapping[str, Any] = {"channel": DEFAULT_CHANNEL, "streamId": DEFAULT_STREAM_ID}
"""What says which recording of an archive, and what counts where it is not said."""
_WHICH = re.compile(rf"\?(?:{RECORDING}|{'|'.join(WORDS)})=")


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
        return text == self.store or (text.startswith(self.store) and bool(_WHICH.match(text, len(self.store))))


def journal_name(store: str) -> TargetName:
    """Of a journal, which is one target."""
    return TargetName(store, store)


def recording_name(store: str, given: Mapping[str, Any]) -> TargetName:
    """Of the recording that the options ``given`` say. Earlier versions left out what was not given: all spellings that
    mean the same are its names."""
    if RECORDING in given:
        return TargetName(store, f"{store}?{RECORDING}={given[RECORDING]}")
    spelled = [_spellings(name, given.get(name, default), default) for name, default in WORDS.items()]
    first, *others = ("?".join(filter(None, (store, "&".join(filter(None, words))))) for words in product(*spelled))
    return TargetName(store, first, frozenset(others))


def _spellings(name: str, value: Any, default: Any) -> list[str]:
    return [f"{name}={value}", ""] if value == default else [f"{name}={value}"]
