"""Options of a journal, and the types of those with a few allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from everlog.errors import WrongType

Safety = Literal["unsafe", "almost_safe", "safe"]
"""When the C library syncs; see ``docs/durability.md``."""
Compression = Literal["off", "none", "lz4", "null"]
"""How payloads are stored; ``off`` and ``none`` are the same."""
DurabilityName = Literal["buffered", "written", "synced"]
"""The values of :class:`everlog.core.files.durability.Durability`."""
StartPlace = Literal["beginning", "end"]
"""Where a new subscriber starts: at the first message present, or at the next one written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JlogOptions:
    """Options for reading a journal.

    ``pre_commit``: also read the messages in the pre-commit buffer. They follow the last message of the last segment
    and continue its numbering. Their final address may differ, and a flush may make them appear twice.
    """

    pre_commit: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.pre_commit, bool):
            raise WrongType("pre_commit", found=repr(self.pre_commit), expected="True or False")
