"""Until when an agent needs no cycle: nothing is open that moves by itself, and what may come is seen in memory or at
sockets."""

from __future__ import annotations

BUSY = 0
"""It needs each cycle."""
FOREVER = 1 << 62
"""Until something comes."""
