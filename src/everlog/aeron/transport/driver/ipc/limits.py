"""Limits and cleaning of IPC publications: the compiled module, or its documented Python twin
:mod:`everlog.aeron.transport.driver.ipc.limits_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.driver.ipc.limits_twin import IpcTerms as IpcTerms
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.ipc.limits_twin import IpcLimits as IpcLimits
    from everlog.aeron.transport.driver.ipc.limits_twin import update_all as update_all
else:
    _compiled = load("everlog.aeron.transport.driver.ipc._limits", "everlog.aeron.transport.driver.ipc.limits_twin")
    IpcLimits, update_all = _compiled.IpcLimits, _compiled.update_all
