"""Verifies an archive's catalog and mark file."""

from __future__ import annotations

from everlog.aeron.archive.folder.archive import ArchiveFolder, load_mark
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import CATALOG_NAME, NAMING, CatalogEntry
from everlog.aeron.archive.format.entry_checksums import kind_of, stale_kind_of
from everlog.aeron.archive.format.segments import Naming
from everlog.aeron.frames.constants import version_text
from everlog.aeron.layouts import DescriptorHeader
from everlog.core.report import Fault, Report, Severity
from everlog.errors import CorruptData, EverlogError
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32

MARK_NAME = "archive-mark.dat"
REPAIR = "everlog repair"
_CRCS = (Crc32(IEEE), Crc32(CASTAGNOLI))


def check_catalog(archive: ArchiveFolder, report: Report) -> None:
    """Report the catalog's faults, and those of its entries."""
    if archive.catalog_fault is not None:
        report.add(archive.catalog_fault)
    if archive.catalog is None:
        return
    for fault in archive.catalog.faults:
        report.add(fault)
    if archive.naming is not archive.catalog.naming:
        found = f"version {version_text(archive.catalog.header.version)}"
        expected = "0.x, because segment files are named by index"
        if archive.naming is Naming.POSITION:
            expected = "1.x or 2.x, because segment files are named by position"
        lost = "nothing: files are read by their names"
        repair = "none: an interrupted migration, or a damaged version; correct the version"
        report.add(Fault("catalog-header", CATALOG_NAME, 0, found, expected, loses=lost, repair=repair))
    for entry in archive.catalog.entries:
        _check_entry(archive, report, entry)


def _check_entry(archive: ArchiveFolder, report: Report, entry: CatalogEntry) -> None:
    """Check the entry's state, and its checksum if it has one. The real archive does not update the checksum when
    it recovers a stop position."""
    stream = str(entry.recording_id)
    stored = entry.checksum & 0xFFFFFFFF
    if entry.state == "INVALID" and archive.is_purged(recording_of(entry)):
        found = "state INVALID, and no files"
        report.add(
            Fault("recording-purged", CATALOG_NAME, entry.offset, found, "none", severity=Severity.NOTE, stream=stream)
        )
    elif entry.state == "INVALID":
        offset = entry.offset + DescriptorHeader.field("state").offset
        lost = "nothing: its frames are still read"
        repair = f"everlog archive DIR mark-valid {entry.recording_id}"
        report.add(
            Fault(
                "recording-invalid",
                CATALOG_NAME,
                offset,
                "state INVALID",
                "VALID",
                loses=lost,
                repair=repair,
                stream=stream,
            )
        )
    if kind_of(entry) is not None:
        return
    offset = entry.offset + DescriptorHeader.field("checksum").offset
    found = f"checksum {stored:08x}"
    if stale_kind_of(entry) is not None:
        found += ", of the entry before its stop position was recovered"
        report.add(
            Fault(
                "catalog-checksum",
                CATALOG_NAME,
                offset,
                found,
                "the checksum of the current entry",
                severity=Severity.NOTE,
                stream=stream,
            )
        )
        return
    expected = " or ".join(f"{crc.checksum(entry.body):08x}" for crc in _CRCS)
    lost = "nothing, if the descriptor is correct"
    report.add(
        Fault("catalog-checksum", CATALOG_NAME, offset, found, expected, loses=lost, repair=REPAIR, stream=stream)
    )


def check_mark(archive: ArchiveFolder, report: Report) -> None:
    """Report the mark file's faults."""
    lost = "the owner's state and its error log"
    try:
        mark = load_mark(archive.storage)
    except CorruptData as error:
        found, expected = error.found or "", error.expected or ""
        report.add(Fault("mark-file", MARK_NAME, error.offset, found, expected, loses=lost, repair=REPAIR))
        return
    except EverlogError as error:
        report.add(Fault("unreadable", MARK_NAME, None, error.found or str(error), "a readable file", loses=lost))
        return
    if mark is None:
        report.add(
            Fault(
                "mark-file-missing",
                MARK_NAME,
                None,
                "no file",
                "a mark file",
                loses="the owner's state",
                severity=Severity.NOTE,
            )
        )
        return
    at = mark.header_offset
    version = mark.header.version
    if version and version >> 16 not in NAMING:
        expected = "0.x to 3.x; no archive starts with this one"
        report.add(Fault("mark-file", MARK_NAME, at, f"version {mark.version}", expected, loses=lost, repair=REPAIR))
    elif archive.catalog is not None and version >> 16 != archive.catalog.header.version >> 16 and version:
        found = f"version {mark.version}"
        report.add(
            Fault(
                "mark-file",
                MARK_NAME,
                at,
                found,
                "the catalog's major version",
                loses="nothing",
                repair="everlog archive DIR migrate",
            )
        )
    if mark.problem is not None:
        expected = "channels and an error log within the file"
        report.add(
            Fault(
                "mark-file",
                MARK_NAME,
                at,
                mark.problem,
                expected,
                loses="channels or errors of the archive",
                severity=Severity.NOTE if at == 0 else Severity.FAULT,
            )
        )
