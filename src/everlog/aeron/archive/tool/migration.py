"""``migrate``: upgrades archives with catalogs 0.x, 1.x and 2.x to version 3. Source: ArchiveTool.migrate,
ArchiveMigration_0_1, _1_2, _2_3.

**Result.** As the original's: segment files named by position, a catalog of version 3.0.0 without spare capacity, a
mark file of version 3.0.0, and an empty ``migration-FROM-to-TO.dat`` for each version in between. Three defects of the
original are avoided: files of a recording that starts after its first segment get the position at which they begin (the
original adds part of it twice); files of invalid recordings are renamed, too; and an archive without a mark file
(Aeron 1.7) is migrated.

**Order, and what a crash leaves.** Files are renamed first, then the catalog is replaced atomically, then the mark
file's version is written. Until the catalog is replaced, files may have either name, and reading reports that;
migrating again finishes, because a file's number shows which name it has (:func:`position_of`). So it also finishes
what the original left after an interruption in its first two steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.folder.liveness import load_mark_head
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import ALIGNMENT, CATALOG_NAME, LENGTH_PREFIX_BYTES, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import encode_entry_header, encode_header
from everlog.aeron.archive.format.mark_place import LINK_NAME, MARK_NAME
from everlog.aeron.archive.format.segments import MAX_POSITION, Naming, SegmentMap, is_bytes, segment_name
from everlog.aeron.archive.tool.folder import CatalogedArchive, open_folder
from everlog.aeron.archive.tool.orphans import segment_files
from everlog.aeron.archive.tool.steps import CreateFile, RenameFiles, ReplaceFile, WriteBytes, state_of
from everlog.aeron.frames.constants import HEADER_LENGTH, align, version_text
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.layouts import ArchiveMarkHeader, DataHeader, DescriptorHeader, RecordingDescriptor
from everlog.core.files.storage import Storage
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.errors import CorruptData, StoreExists, UnsupportedVersion

LATEST = 3 << 16 | 1 << 8
STEPS = (1 << 16, 2 << 16, 3 << 16)
"""The versions that a migration passes through, ending with the last."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A planned migration: the versions of the mark file (``None`` if it is missing) and the catalog, the versions it
    passes through, and old and new file names by recording."""

    mark_version: int | None
    catalog_version: int
    versions: tuple[int, ...]
    renames: dict[int, tuple[tuple[str, str], ...]]


def full_version(version: int) -> str:
    """Return a version as the original prints it."""
    major, minor, patch = version_text(version).split(".")
    return f"{version}(Major {major} Minor {minor} Patch {patch})"


def plan_migrate(storage: Storage) -> tuple[RepairPlan, Migration]:
    """Plan to upgrade an archive to version 3.0.0; empty if catalog and mark file have version 3 already.

    Raises :class:`CorruptData` for a damaged catalog, or if a file's first frame contradicts the position in its name;
    :class:`StoreExists` if two files would get the same name; and as :func:`~.folder.open_folder`.
    """
    folder = open_folder(storage, any_version=True)
    mark = load_mark_head(folder.storage)
    mark_version = None if mark is None else mark.header.version
    catalog_version = folder.catalog.header.version
    versions = tuple(version for version in STEPS if version > catalog_version)
    renames = {} if not versions else dict(_renames(folder))
    steps: list[RepairStep] = []
    if versions:
        steps += _marks(folder, catalog_version, mark_version, versions)
        steps += _rename_steps(folder, renames)
        steps.append(_new_catalog(folder))
    if mark is not None and mark.header.version < STEPS[-1]:
        steps.append(_new_mark_version(folder, mark.header_offset, mark.header.version))
    plan = RepairPlan(folder.storage.root, FAMILY, tuple(steps))
    return plan, Migration(mark_version, catalog_version, versions, renames)


def _marks(
    folder: CatalogedArchive, catalog_version: int, mark_version: int | None, versions: tuple[int, ...]
) -> list[CreateFile]:
    """The empty marker files that the original leaves."""
    steps = []
    # As in the original, the first step is named by the catalog's version, the others by the mark file's.
    before = catalog_version if versions[0] == STEPS[0] or mark_version is None else mark_version
    for version in versions:
        name = f"migration-{before}-to-{version}.dat"
        before = version
        if not folder.storage.exists(name):
            steps.append(CreateFile(file=name, before="no file", after="an empty file", storage=folder.storage))
    return steps


# Names


def position_of(number: int, segments: SegmentMap, naming: Naming) -> int | None:
    """Return the position at which a file begins, by the number in its name, in a folder whose catalog has ``naming``
    or which was partly migrated; ``None`` if no segment of the recording has that number.

    From one naming to the next, numbers only grow, and they differ modulo the segment length: indexes are not multiples
    of the shortest term; numbers of 1.x are multiples of the segment length; positions are larger by the offset of the
    first term from such a multiple.
    """
    length = segments.segment_length
    first = segments.base(segments.start_position)
    shift = first % length
    if naming is Naming.INDEX and not is_bytes(number):
        return first + number * length
    if number % length != shift:
        if number % length or naming is Naming.POSITION:
            return None
        number += shift  # a number of 1.x; with a shift of 0, these equal positions
    return number if number >= first else None


def _renames(folder: CatalogedArchive) -> list[tuple[int, tuple[tuple[str, str], ...]]]:
    """Old and new names, by recording. Raises :class:`CorruptData`, :class:`StoreExists`."""
    if folder.catalog.naming is Naming.POSITION:
        return []
    files = segment_files(folder.storage)
    found = []
    for entry in folder.catalog.entries:
        own = files.get(entry.recording_id, [])
        names = {name for _, name, _ in own}
        pairs: list[tuple[str, str]] = []
        for number, name, _ in own:
            new = _new_name(folder, entry, number, name)
            if new == name:
                continue
            if new in names or any(new == other for _, other in pairs):
                why = f"another file is or becomes {new}"
                raise StoreExists(name, found=why, expected="one file for each position")
            pairs.append((name, new))
        if pairs:
            found.append((entry.recording_id, tuple(pairs)))
    return found


def _new_name(folder: CatalogedArchive, entry: CatalogEntry, number: int, name: str) -> str:
    recording = recording_of(entry)
    segments = folder.archive.segment_map(recording)
    position = position_of(number, segments, folder.catalog.naming)
    if position is None or position > MAX_POSITION:
        found, expected = f"number {number}", f"the number of a segment of recording {entry.recording_id}"
        raise CorruptData(name, found=found, expected=expected, hint="move it away first; nothing was changed")
    _check_first_frame(folder, segments, position, name, recording.initial_term_id)
    return segment_name(entry.recording_id, position)


def _check_first_frame(
    folder: CatalogedArchive, segments: SegmentMap, base: int, name: str, initial_term_id: int
) -> None:
    """Raise :class:`CorruptData` if the first frame is valid but of another term, so that the file's name is wrong. A
    damaged frame proves nothing."""
    position = max(base, segments.start_position)
    with folder.storage.open(name) as file:
        data = file.read_at(position - base, HEADER_LENGTH)
    if len(data) < HEADER_LENGTH or not any(data):
        return
    header, term = DataHeader.unpack_from(data), segments.term_length
    expected = term_id_of(position, initial_term_id, term)
    is_frame = header.frame_length >= HEADER_LENGTH and header.term_offset == term_offset_of(position, term)
    if is_frame and header.term_id != expected:
        hint = "the file has the name of another recording or position; nothing was changed"
        raise CorruptData(
            name,
            offset=position - base,
            found=f"a frame of term {header.term_id}",
            expected=f"term {expected}",
            hint=hint,
        )


def _rename_steps(folder: CatalogedArchive, renames: dict[int, tuple[tuple[str, str], ...]]) -> list[RenameFiles]:
    return [
        RenameFiles(
            file=pairs[0][0],
            before=f"{len(pairs)} files of recording {recording_id}: {', '.join(old for old, _ in pairs)}",
            after=", ".join(new for _, new in pairs),
            storage=folder.storage,
            names=pairs,
        )
        for recording_id, pairs in renames.items()
    ]


# Catalog and mark file


def _new_catalog(folder: CatalogedArchive) -> ReplaceFile:
    data = migrated_catalog(folder)
    return ReplaceFile(
        file=CATALOG_NAME,
        before=f"version {version_text(folder.catalog.header.version)}, {folder.catalog.size} bytes",
        after=f"version {version_text(STEPS[-1])}, {len(data)} bytes",
        storage=folder.storage,
        states=(state_of(folder.storage, CATALOG_NAME),),
        new=data,
    )


def migrated_catalog(folder: CatalogedArchive) -> bytes:
    """Return a catalog of version 3.0.0 with the entries of an old one."""
    parts = [encode_header(folder.next_recording_id, STEPS[-1])]
    for entry in folder.catalog.entries:
        body = entry.body[: _descriptor_end(entry.body)]
        body = body.ljust(align(DescriptorHeader.size + len(body), ALIGNMENT) - DescriptorHeader.size, b"\0")
        parts.append(encode_entry_header(body, entry.state) + body)
    return b"".join(parts)


def _descriptor_end(body: bytes) -> int:
    """The offset after the last string, which lies within the body."""
    at = RecordingDescriptor.size
    for _ in RecordingDescriptor.var_data:
        at += LENGTH_PREFIX_BYTES + int.from_bytes(body[at : at + LENGTH_PREFIX_BYTES], "little")
    return at


def _new_mark_version(folder: CatalogedArchive, header_offset: int, version: int) -> WriteBytes:
    if folder.storage.exists(LINK_NAME):
        raise UnsupportedVersion(
            LINK_NAME,
            found="a mark file in another folder",
            expected="one in the archive's folder",
        )
    return WriteBytes(
        file=MARK_NAME,
        before=f"version {version_text(version)}",
        after=f"version {version_text(STEPS[-1])}",
        storage=folder.storage,
        offset=header_offset + ArchiveMarkHeader.field("version").offset,
        old=version.to_bytes(4, "little", signed=True),
        new=STEPS[-1].to_bytes(4, "little"),
    )
