"""Ensures that only one archive of a driver uses an archive id at a time.

The counter of errors stands for the id. Two archives that start at the same instant both find no such counter, so each
looks again when it has its own. The driver adds counters one after the other: the archive whose counter is added second
sees the other's. If both see each other, the lower registration id wins. An archive with the lower id may have been
added second, though, when the other one has looked already and serves: it waits until the other one shows its counter
of control sessions, which comes after that look, or gives up.
"""

from __future__ import annotations

from everlog.aeron.archive.service.counters import (
    ARCHIVE_ERRORS_TYPE_ID,
    CONTROL_SESSIONS_TYPE_ID,
    archive_key,
)
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.counter import Counter
from everlog.errors import StoreUnavailable

RIVAL_TIMEOUT_S = 5.0
"""How long to wait for an archive that has started at the same instant."""
POLL_S = 0.01


def require_unused_id(aeron: Aeron, archive_id: int) -> None:
    """Raises :class:`StoreUnavailable` if an archive with this id runs on the driver."""
    if aeron.counters.find_by_key(ARCHIVE_ERRORS_TYPE_ID, archive_key(archive_id)) is not None:
        raise _refusal(aeron, archive_id, "is running")


def claim_id(aeron: Aeron, archive_id: int, errors: Counter) -> None:
    """Make sure that no other archive has claimed the id: ``errors`` is the counter that this one has added for it.
    Waits for an archive that starts at the same instant. Raises :class:`StoreUnavailable` if the other one has it."""
    key, others = archive_key(archive_id), aeron.counters

    def is_decided() -> bool:
        rivals = [each for each in others.find_all_by_key(ARCHIVE_ERRORS_TYPE_ID, key) if each != errors.counter_id]
        if not rivals:
            return True
        found = [each for each in map(others.get, rivals) if each is not None]
        is_first = all(each.registration_id > errors.registration_id for each in found)
        if not is_first or others.find_by_key(CONTROL_SESSIONS_TYPE_ID, key) is not None:
            raise _refusal(aeron, archive_id, "has started at the same time")
        return False

    if not aeron.wait_until(is_decided, RIVAL_TIMEOUT_S, POLL_S):
        raise _refusal(aeron, archive_id, "is starting")


def _refusal(aeron: Aeron, archive_id: int, what: str) -> StoreUnavailable:
    found = f"an archive with id {archive_id} on this driver"
    hint = "give each archive of a driver its own id; one that was killed keeps it for ten seconds"
    message = f"{aeron.folder}: {found} {what}"
    expected = "no other archive with this id"
    return StoreUnavailable(str(aeron.folder), found=found, expected=expected, hint=hint, message=message)
