"""Special values of an agent's ``quiet_until``, the time until which it needs no cycle: nothing it has open changes by
itself, and new work shows in memory or at sockets."""

from __future__ import annotations

BUSY = 0
"""The agent needs every cycle."""
FOREVER = 1 << 62
"""The agent needs no cycle until work arrives."""
