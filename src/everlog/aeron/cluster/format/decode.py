"""Selects the decoder of cluster messages: the compiled one, or its specification in plain Python,
:mod:`everlog.aeron.cluster.format.decode_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.cluster.format.decode_twin import Decoder as Decoder
else:
    Decoder = load("everlog.aeron.cluster.format._decode", "everlog.aeron.cluster.format.decode_twin").Decoder
