"""The decoder of the log's messages: compiled, or its twin :mod:`everlog.aeron.cluster.decode_twin`, which says what it
does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.cluster.decode_twin import Decoder as Decoder
else:
    Decoder = load("everlog.aeron.cluster._decode", "everlog.aeron.cluster.decode_twin").Decoder
