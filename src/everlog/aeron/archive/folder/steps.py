"""The base of every step of a plan that changes an archive's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.core.plan.step import FolderStep


@dataclass(frozen=True, kw_only=True)
class ArchiveStep(FolderStep):
    """A change of an archive's folder. It is refused while an archive runs there, unless ``is_owner`` says that whoever
    applies it owns the folder, as an archive that is opened for writing does."""

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
