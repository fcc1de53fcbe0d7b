"""A driver's state at one moment, as metrics and checks need it."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.error_log import DistinctError
from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.aeron.transport.format.counters import SYSTEM, Counter
from everlog.aeron.transport.format.layouts import CncMetaData
from everlog.aeron.transport.format.loss_report import Loss, LossProblem, load_losses
from everlog.core.files.storage import Storage
from everlog.errors import EverlogError, StoreUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverObservation:
    """What a driver's folder says. ``heartbeat_ms`` is in milliseconds since 1970, -1 after a clean close, ``None`` if
    the file ends before it; ``losses`` is ``None`` without a readable loss report. The problems say what could not be
    read."""

    header: CncMetaData
    version: str
    is_live: bool
    heartbeat_ms: int | None
    counters: tuple[Counter, ...]
    errors: tuple[DistinctError, ...]
    losses: tuple[Loss, ...] | None
    problem: str | None
    loss_problem: str | None

    def system_counters(self) -> dict[int, int]:
        """Values of the system counters, by their id in the key."""
        found = {}
        for counter in self.counters:
            if counter.type_id == SYSTEM and "system_counter_id" in counter.key_fields:
                found[int(counter.key_fields["system_counter_id"])] = counter.value
        return found


def observe_driver(storage: Storage, now_ms: int) -> DriverObservation:
    """Read ``cnc.dat`` and the loss report. Raises as :meth:`CncFile.open` does, and :class:`LimitExceeded`."""
    with CncFile.open(storage) as cnc:
        header, version, heartbeat = cnc.header, cnc.version, cnc.heartbeat_ms()
        is_live, problem = cnc.is_live(now_ms), cnc.problem
        counters, errors = tuple(cnc.counters()), tuple(cnc.errors())
    found: tuple[list[Loss], LossProblem | None] | None = None
    loss_problem = None
    try:
        found = load_losses(storage)
    except StoreUnavailable as error:
        loss_problem = str(error)
    if found is not None and found[1] is not None:
        damage = found[1]
        loss_problem = f"offset {damage.offset}: {damage.found}; expected {damage.expected}"
    return DriverObservation(
        header=header,
        version=version,
        is_live=is_live,
        heartbeat_ms=heartbeat,
        counters=counters,
        errors=errors,
        losses=None if found is None else tuple(found[0]),
        problem=problem,
        loss_problem=loss_problem,
    )


def live_counters(storage: Storage, now_ms: int) -> tuple[Counter, ...] | None:
    """The counters of a folder's driver; ``None`` if no live driver can be read there."""
    try:
        with CncFile.open(storage) as cnc:
            return tuple(cnc.counters()) if cnc.is_live(now_ms) else None
    except EverlogError:
        return None
