"""Selects the compiled message walker, else its twin :mod:`everlog.jlog.reading.walk_twin`, which documents both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.jlog.reading.walk_twin import END as END
from everlog.jlog.reading.walk_twin import FAULT as FAULT
from everlog.jlog.reading.walk_twin import FULL as FULL
from everlog.jlog.reading.walk_twin import LOG as LOG
from everlog.jlog.reading.walk_twin import MARKER as MARKER
from everlog.jlog.reading.walk_twin import MORE as MORE
from everlog.jlog.reading.walk_twin import OFFSET as OFFSET
from everlog.jlog.reading.walk_twin import STOP as STOP
from everlog.jlog.reading.walk_twin import SUSPECT as SUSPECT
from everlog.jlog.reading.walk_twin import TIMESTAMP_NS as TIMESTAMP_NS
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.jlog.reading.walk_twin import walk_messages as walk_messages
else:
    walk_messages = load("everlog.jlog.reading._walk", "everlog.jlog.reading.walk_twin").walk_messages
