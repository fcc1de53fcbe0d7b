"""Memory shared between processes: compiled, or its twin :mod:`everlog.kernel.memory_twin`, for a single process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.kernel.memory_twin import BlockSink as BlockSink
    from everlog.kernel.memory_twin import Memory as Memory
else:
    _loaded = load("everlog.kernel._memory", "everlog.kernel.memory_twin")
    BlockSink, Memory = _loaded.BlockSink, _loaded.Memory
