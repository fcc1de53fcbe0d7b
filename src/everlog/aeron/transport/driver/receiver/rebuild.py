"""How far an image's stream is there: compiled, or the twin
:mod:`everlog.aeron.transport.driver.receiver.rebuild_twin`, which says what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.receiver.rebuild_twin import RebuildTracker as RebuildTracker
else:
    RebuildTracker = load(
        "everlog.aeron.transport.driver.receiver._rebuild", "everlog.aeron.transport.driver.receiver.rebuild_twin"
    ).RebuildTracker
