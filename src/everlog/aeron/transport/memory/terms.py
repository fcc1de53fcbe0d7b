"""Loops over terms: compiled, or the Python twin :mod:`everlog.aeron.transport.memory.terms_twin`, which documents
them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.memory import terms_twin as _loaded
else:
    _loaded = load("everlog.aeron.transport.memory._terms", "everlog.aeron.transport.memory.terms_twin")

from everlog.aeron.transport.memory.terms_twin import INSERTED as INSERTED
from everlog.aeron.transport.memory.terms_twin import INVALID as INVALID
from everlog.aeron.transport.memory.terms_twin import NO_ACTION as NO_ACTION
from everlog.aeron.transport.memory.terms_twin import PRESENT as PRESENT
from everlog.aeron.transport.memory.terms_twin import UNBLOCKED as UNBLOCKED
from everlog.aeron.transport.memory.terms_twin import UNBLOCKED_TO_END as UNBLOCKED_TO_END

scan_for_availability = _loaded.scan_for_availability
scan_datagrams = _loaded.scan_datagrams
insert = _loaded.insert
scan_for_gap = _loaded.scan_for_gap
scan_block = _loaded.scan_block
try_fill_gap = _loaded.try_fill_gap
unblock_term = _loaded.unblock_term
unblock = _loaded.unblock
rotate_log = _loaded.rotate_log
producer_position = _loaded.producer_position
clean = _loaded.clean
