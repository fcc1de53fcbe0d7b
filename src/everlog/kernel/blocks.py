"""Decodes blocks of SBE messages into columns: compiled, or its twin :mod:`everlog.kernel.blocks_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.kernel.blocks_twin import Blocks as Blocks
else:
    Blocks = load("everlog.kernel._blocks", "everlog.kernel.blocks_twin").Blocks
