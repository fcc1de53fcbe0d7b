"""The framer: compiled, or its twin :mod:`everlog.aeron.framing_twin`, which says what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.framing_inputs import NOT_TAKEN as NOT_TAKEN
from everlog.aeron.framing_inputs import TO_FILE as TO_FILE
from everlog.aeron.framing_inputs import TO_ITSELF as TO_ITSELF
from everlog.aeron.framing_inputs import Framing as Framing
from everlog.aeron.framing_inputs import framed_length as framed_length
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.framing_twin import Framer as Framer
else:
    Framer = load("everlog.aeron._framer", "everlog.aeron.framing_twin").Framer
