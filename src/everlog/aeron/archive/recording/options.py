"""The options of an archive that is open for writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from everlog.aeron.archive.writing.catalog_writer import DEFAULT_CAPACITY, CatalogOptions
from everlog.aeron.family_options import CHECKSUM_KINDS, Checksum
from everlog.aeron.frames.constants import MAX_SEGMENT_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.mark_file import LIVENESS_TIMEOUT_MS
from everlog.core.files.durability import Durability
from everlog.core.options import check_choice
from everlog.errors import UsageError

DurabilityName = Literal["written", "synced"]
DEFAULT_SEGMENT_LENGTH = 128 << 20
MAX_TIMEOUT_S = 3600


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """``durability``: what an append guarantees on return, ``written`` or ``synced``. Alternatively Aeron's
    ``file_sync_level`` (0 to 2; 0 is ``written``) and ``catalog_file_sync_level`` (at least ``file_sync_level``).
    ``segment_length``: size of a new recording's files in bytes, a power of two, at least the recording's term length.
    ``checksum`` of frames and catalog entries: ``none``, ``crc32`` or ``crc32c``. The folder does not store this
    choice, so give the same each time, or ``None`` to use the one that the catalog's entries have.
    ``catalog_capacity``: initial size of the catalog in bytes. ``liveness_timeout_s``: how long the folder stays locked
    after its owner is killed. ``flush_interval_s``: how long offered messages wait at most. Both times are at most an
    hour.
    """

    durability: Durability | DurabilityName | None = None
    file_sync_level: int | None = None
    catalog_file_sync_level: int | None = None
    segment_length: int = DEFAULT_SEGMENT_LENGTH
    checksum: Checksum | None = "none"
    catalog_capacity: int = DEFAULT_CAPACITY
    liveness_timeout_s: float = LIVENESS_TIMEOUT_MS / 1000
    flush_interval_s: float = 0.05

    def __post_init__(self) -> None:
        durability = None if self.durability is None else _durability(self.durability)
        level = self.file_sync_level
        if level is None:
            level = 1 if durability is Durability.SYNCED else 0
        if level not in (0, 1, 2):
            raise UsageError("file_sync_level", found=str(level), expected="0, 1 or 2")
        if durability is not None and durability is not durability_of(level):
            raise UsageError("file_sync_level", found=str(level), expected=f"omitted with durability={durability}")
        catalog = level if self.catalog_file_sync_level is None else self.catalog_file_sync_level
        if not level <= catalog <= 2:
            raise UsageError("catalog_file_sync_level", found=str(catalog), expected=f"{level} to 2")
        if not is_power_of_two(self.segment_length) or not (
            MIN_TERM_LENGTH <= self.segment_length <= MAX_SEGMENT_LENGTH
        ):
            expected = f"a power of two from {MIN_TERM_LENGTH} to {MAX_SEGMENT_LENGTH}"
            raise UsageError("segment_length", found=str(self.segment_length), expected=expected)
        if self.checksum is not None:
            check_choice("checksum", self.checksum, CHECKSUM_KINDS)
        for name in ("liveness_timeout_s", "flush_interval_s"):
            if not 0 <= getattr(self, name) <= MAX_TIMEOUT_S:
                raise UsageError(name, found=str(getattr(self, name)), expected=f"0 to {MAX_TIMEOUT_S} seconds")
        object.__setattr__(self, "durability", durability_of(level))
        object.__setattr__(self, "file_sync_level", level)
        object.__setattr__(self, "catalog_file_sync_level", catalog)
        _ = self.catalog  # CatalogOptions checks its own values

    @property
    def catalog(self) -> CatalogOptions:
        """The options for the catalog."""
        level = self.catalog_file_sync_level or 0
        return CatalogOptions(capacity=self.catalog_capacity, checksum=self.checksum or "none", sync_level=level)


class OptionKeywords(TypedDict, total=False):
    """The fields of :class:`ArchiveOptions`, as keywords of ``create`` and ``open_archive``."""

    durability: Durability | DurabilityName | None
    file_sync_level: int | None
    catalog_file_sync_level: int | None
    segment_length: int
    checksum: Checksum | None
    catalog_capacity: int
    liveness_timeout_s: float
    flush_interval_s: float


def _durability(value: Durability | str) -> Durability:
    check_choice("durability", str(value), get_args(DurabilityName))
    return Durability(value)


def durability_of(level: int) -> Durability:
    """Return the durability that a file sync level guarantees."""
    return Durability.SYNCED if level else Durability.WRITTEN
