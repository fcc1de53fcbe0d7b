"""``mark-valid`` and ``mark-invalid``: four bytes of a catalog entry. Source: ArchiveTool.changeRecordingState."""

from __future__ import annotations

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import STATE_CODES
from everlog.aeron.archive.tool.folder import open_folder
from everlog.aeron.archive.tool.steps import WriteBytes
from everlog.aeron.layouts import DescriptorHeader
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.core.plan.plan import RepairPlan
from everlog.errors import UsageError

OTHER = {"VALID": "INVALID", "INVALID": "VALID"}


def plan_state(storage: Storage, recording_id: int, state: str) -> RepairPlan:
    """Plan to mark a recording ``VALID`` or ``INVALID``; empty if it has that state. Archives don't serve invalid
    recordings.

    Raises :class:`UsageError` for a deleted recording, :class:`UnknownStream`, and as
    :func:`~.folder.open_folder`.
    """
    if state not in OTHER:
        raise UsageError("state", found=repr(state), expected=" or ".join(OTHER))
    folder = open_folder(storage)
    entry = folder.entry(recording_id)
    if entry.state == state:
        return RepairPlan(folder.storage.root, FAMILY, ())
    if entry.state != OTHER[state]:
        raise UsageError(
            "RECORDING",
            found=f"recording {recording_id} in state {entry.state}",
            expected=f"a recording in state {OTHER[state]}",
            message=f"recording {recording_id} is {entry.state}, so its files are gone; it can't be marked {state}",
        )
    return RepairPlan(folder.storage.root, FAMILY, (set_state(folder.storage, entry, state),))


def set_state(storage: WritableStorage, entry: CatalogEntry, state: str) -> WriteBytes:
    """Return the step that writes a recording's state, which an entry's checksum does not cover."""
    return WriteBytes(
        file=CATALOG_NAME,
        before=f"recording {entry.recording_id} {entry.state}",
        after=f"recording {entry.recording_id} {state}",
        loses="nothing" if state == "VALID" else f"recording {entry.recording_id}, for archives that serve this folder",
        storage=storage,
        offset=entry.offset + DescriptorHeader.field("state").offset,
        old=STATE_CODES[entry.state].to_bytes(4, "little"),
        new=STATE_CODES[state].to_bytes(4, "little"),
    )
