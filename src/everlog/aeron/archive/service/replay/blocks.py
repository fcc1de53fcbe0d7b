"""Prepares blocks of recordings for their replay: compiled, or its twin
:mod:`everlog.aeron.archive.service.replay.blocks_twin`, which documents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.archive.service.replay.blocks_twin import DAMAGED as DAMAGED
from everlog.aeron.archive.service.replay.blocks_twin import NO_FRAME as NO_FRAME
from everlog.aeron.archive.service.replay.blocks_twin import WRONG_CHECKSUM as WRONG_CHECKSUM
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.archive.service.replay.blocks_twin import Preparer as Preparer
else:
    Preparer = load(
        "everlog.aeron.archive.service.replay._blocks", "everlog.aeron.archive.service.replay.blocks_twin"
    ).Preparer
