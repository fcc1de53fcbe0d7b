"""The base class of the steps of plans that change an archive's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.core.plan.step import FolderStep


@dataclass(frozen=True, kw_only=True)
class ArchiveStep(FolderStep):
    """A change of an archive's folder. It is refused while an archive runs there. ``is_owner`` skips that check, for a
    caller that owns the folder, such as an archive that is open for writing."""

    open_files: ClassVar[tuple[str, ...]] = (CATALOG_NAME,)
    """The step is refused while another process has one of these files open."""

    is_owner: bool = False

    def check(self) -> None:
        """Raises :class:`StoreUnavailable` while an archive runs here; see :class:`RepairStep`."""
        if not self.is_owner:
            refuse_running(self.storage, files=self.open_files)
        self.compare()

    def compare(self) -> None:
        """Raises :class:`FileChanged` if the folder is not as it was when the step was planned."""
