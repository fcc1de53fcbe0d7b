"""The frame walker: compiled, or its twin :mod:`everlog.aeron.frames.walk_twin`, which documents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.frames import walk_twin
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.frames.walk_twin import Walker as Walker
else:
    Walker = load("everlog.aeron.frames._walk", "everlog.aeron.frames.walk_twin").Walker

Geometry = walk_twin.Geometry
