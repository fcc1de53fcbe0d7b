"""Tracks how far an image is complete: the compiled module, or its documented Python twin
:mod:`everlog.aeron.transport.driver.receiver.rebuild_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.receiver.rebuild_twin import RebuildTracker as RebuildTracker
else:
    RebuildTracker = load(
        "everlog.aeron.transport.driver.receiver._rebuild", "everlog.aeron.transport.driver.receiver.rebuild_twin"
    ).RebuildTracker
