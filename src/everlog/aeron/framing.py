"""The framer; :mod:`everlog.aeron.framing_twin` says what it does."""

from __future__ import annotations

from everlog.aeron.framing_inputs import Framing as Framing
from everlog.aeron.framing_inputs import framed_length as framed_length
from everlog.aeron.framing_twin import Framer as Framer
