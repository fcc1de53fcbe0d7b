"""The framer: compiled, or its twin :mod:`everlog.aeron.frames.framing_twin`, which documents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.frames.framing_inputs import FRAMED as FRAMED
from everlog.aeron.frames.framing_inputs import SLOW_PATH as SLOW_PATH
from everlog.aeron.frames.framing_inputs import Framing as Framing
from everlog.aeron.frames.framing_inputs import framed_length as framed_length
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.frames.framing_twin import Framer as Framer
    from everlog.aeron.frames.framing_twin import Tail as Tail
    from everlog.aeron.frames.framing_twin import longest_of as longest_of
else:
    _loaded = load("everlog.aeron.frames._framer", "everlog.aeron.frames.framing_twin")
    Framer, Tail, longest_of = _loaded.Framer, _loaded.Tail, _loaded.longest_of
