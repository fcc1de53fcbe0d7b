"""The framer: compiled, or its twin :mod:`everlog.aeron.frames.framing_twin`, which documents it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everlog.aeron.frames.framing_inputs import FRAMED as FRAMED
from everlog.aeron.frames.framing_inputs import SLOW_PATH as SLOW_PATH
from everlog.aeron.frames.framing_inputs import Framing as Framing
from everlog.aeron.frames.framing_inputs import framed_length as framed_length
from everlog.aeron.frames.framing_inputs import wrong_message
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.frames.framing_twin import Framer as Framer
    from everlog.aeron.frames.framing_twin import Tail as Tail
    from everlog.aeron.frames.framing_twin import longest_of as _longest_of
else:
    _loaded = load("everlog.aeron.frames._framer", "everlog.aeron.frames.framing_twin")
    Framer, Tail, _longest_of = _loaded.Framer, _loaded.Tail, _loaded.longest_of


def longest_of(payloads: Sequence[object]) -> int:
    """The length of the longest payload, 0 if there is none. Raises :class:`WrongType` for one without a length."""
    try:
        return _longest_of(payloads)
    except TypeError:
        wrong = [payload for payload in payloads if not hasattr(payload, "__len__")]
        if not wrong:
            raise
        raise wrong_message(wrong[0]) from None
