"""Sleeps until work arrives: compiled, or its twin :mod:`everlog.kernel.watch_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load
from everlog.kernel.memory import Memory

if TYPE_CHECKING:
    from everlog.kernel.watch_twin import Condition as Condition
    from everlog.kernel.watch_twin import Watch as Watch
else:
    _MODULE = load("everlog.kernel._watch", "everlog.kernel.watch_twin")
    Condition, Watch = _MODULE.Condition, _MODULE.Watch

WordPair = tuple[Memory, int, Memory, int]
"""Two 64-bit numbers in memory: each a memory and an offset."""
