"""The client's heartbeat thread: compiled, or its Python twin
:mod:`everlog.aeron.transport.client.conducting.pacemaker_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.conducting.pacemaker_twin import Pacemaker as Pacemaker
else:
    Pacemaker = load(
        "everlog.aeron.transport.client.conducting._pacemaker",
        "everlog.aeron.transport.client.conducting.pacemaker_twin",
    ).Pacemaker
