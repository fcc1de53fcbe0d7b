"""Options of a journal's store."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class JlogOptions:
    """``pre_commit``: what waits in the pre-commit buffer is read too, as messages behind the last one of the last
    segment, their numbers going on; it may be written elsewhere in the end, or twice."""

    pre_commit: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.pre_commit, bool):
            raise UsageError("pre_commit", found=repr(self.pre_commit), expected="True or False")
