"""Prepares blocks of recordings for their replay: compiled, or its twin
:mod:`everlog.aeron.archive.service.replay.blocks_twin`, which documents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.archive.service.replay.blocks_twin import prepare_block as prepare_block
else:
    prepare_block = load(
        "everlog.aeron.archive.service.replay._blocks", "everlog.aeron.archive.service.replay.blocks_twin"
    ).prepare_block
