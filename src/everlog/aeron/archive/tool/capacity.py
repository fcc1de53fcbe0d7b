"""``capacity``: lengthens the catalog's file. ArchiveTool documents this command and has the code, but does not offer
it. Source: ArchiveTool.capacity, Catalog.validateCapacity."""

from __future__ import annotations

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import MAX_CATALOG_BYTES
from everlog.aeron.archive.tool.folder import open_folder
from everlog.aeron.archive.tool.steps import Lengthen
from everlog.aeron.archive.writing.catalog_writer import MIN_CAPACITY
from everlog.core.files.storage import Storage
from everlog.core.plan.plan import RepairPlan
from everlog.errors import UsageError


def plan_capacity(storage: Storage, capacity: int) -> RepairPlan:
    """Plan to lengthen the catalog's file to ``capacity`` bytes; empty if it is that long already. It never shrinks.

    Raises :class:`UsageError` for an impossible length, and as :func:`~.folder.open_folder`.
    """
    if not MIN_CAPACITY <= capacity <= MAX_CATALOG_BYTES:
        raise UsageError("BYTES", found=str(capacity), expected=f"{MIN_CAPACITY} to {MAX_CATALOG_BYTES}")
    folder = open_folder(storage)
    size = folder.catalog.size
    if capacity <= size:
        return RepairPlan(folder.storage.root, FAMILY, ())
    step = Lengthen(
        file=CATALOG_NAME,
        before=f"{size} bytes",
        after=f"{capacity} bytes",
        storage=folder.storage,
        old_size=size,
        new_size=capacity,
    )
    return RepairPlan(folder.storage.root, FAMILY, (step,))
