"""Chooses the metastore's new contents from its valid fields and from the segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.core.files.writable import WritableStorage
from everlog.core.report import Fault, Severity
from everlog.errors import EverlogError
from everlog.jlog.format.framing import LEGACY, PLAIN, Framing, Provider
from everlog.jlog.format.layouts import JlogMetastore
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT, SAFETY
from everlog.jlog.format.names import METASTORE, PRE_COMMIT, segment_name
from everlog.jlog.format.pre_commit import START
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.recovery import SegmentData, detect_framing
from everlog.jlog.repair.steps import FILE_MODE, WriteMetastore

MAX_GAP = 1024
"""A metastore that is ahead of the segments by more than this counts as wrong."""
DEFAULT_SAFETY = 1


@dataclass(frozen=True, slots=True)
class Target:
    """The metastore's new contents. ``framings`` has the segments' framings, if they had to be read."""

    written: int
    unit_limit: int
    safety: int
    framing: Framing
    framings: dict[int, Framing]
    guessed: tuple[str, ...] = ()

    def pack(self) -> bytes:
        """Return the file's bytes."""
        return JlogMetastore.pack(
            storage_log=self.written, unit_limit=self.unit_limit, safety=self.safety, magic=self.framing.magic
        )


def choose_target(journal: Journal, faults: list[Fault]) -> Target:
    """Choose the metastore's contents by its valid fields and by the segments."""
    found = journal.metastore
    serious = [fault for fault in faults if fault.severity is Severity.FAULT]
    is_doubted = any(fault.file == METASTORE or fault.code == "magic-differs" for fault in serious)
    framings = dict(_framings(journal)) if is_doubted else {}
    is_garbage = sum(fault.code == "metastore-field" for fault in serious) > 1
    safety = None if is_garbage else found.safety
    guessed = []
    if found.unit_limit is None:
        guessed.append(f"the segment limit (now {DEFAULT_UNIT_LIMIT}, the default)")
    if safety is None:
        guessed.append(f"the safety level (now {SAFETY[DEFAULT_SAFETY]}, the default)")
    return Target(
        written_log(journal),
        found.unit_limit or DEFAULT_UNIT_LIMIT,
        DEFAULT_SAFETY if safety is None else safety,
        _framing(journal, framings),
        framings,
        tuple(guessed),
    )


def written_log(journal: Journal) -> int:
    """Return the segment to write: the metastore's, unless it is below the last existing one, or far above it."""
    stored, last = journal.metastore.storage_log, journal.last_log
    if last is None:
        return stored or 0
    return stored if stored is not None and last <= stored <= last + MAX_GAP else last


def _framings(journal: Journal) -> Iterator[tuple[int, Framing]]:
    for segment in journal.segments:
        try:
            with journal.storage.open(segment_name(segment.log)) as file:
                found = detect_framing(SegmentData(file, 0, file.size()), 0, journal.preferred)
        except EverlogError:
            continue
        if found is not None:
            yield segment.log, found


def _framing(journal: Journal, framings: dict[int, Framing]) -> Framing:
    """The metastore's framing, if a segment has it or no segment shows another; otherwise that of most segments, that
    of the pre-commit buffer's messages, or plain. Version 1.x becomes plain."""
    stored = journal.preferred
    counted = Counter(PLAIN if framing == LEGACY else framing for framing in framings.values())
    if stored == LEGACY:
        stored = PLAIN
    if stored is not None and (not framings or (stored in counted and stored.provider is not Provider.UNKNOWN)):
        return stored
    if counted:
        return counted.most_common(1)[0][0]
    return _framing_of_buffer(journal) or stored or PLAIN


def _framing_of_buffer(journal: Journal) -> Framing | None:
    state = journal.pre_commit()
    if state is None or state.byte_count <= START:
        return None
    with journal.storage.open(PRE_COMMIT) as file:
        found = detect_framing(SegmentData(file, START, file.size()), START, None)
    return PLAIN if found == LEGACY else found


def write_metastore(storage: WritableStorage, journal: Journal, target: Target) -> WriteMetastore | None:
    """Return the step, or ``None`` if the metastore is right already."""
    new = target.pack()
    old: bytes | None = None
    size, mode = 0, FILE_MODE
    if storage.exists(METASTORE):
        with storage.open(METASTORE) as file:
            old, size = file.read_at(0, JlogMetastore.size), file.size()
    elif journal.segments:
        with storage.open_writable(segment_name(journal.segments[0].log)) as segment:
            mode = segment.mode()
    if old == new and size == len(new):
        return None
    return WriteMetastore(
        file=METASTORE,
        before="no file" if old is None else f"{size} bytes, {old.hex() or 'none'}",
        after=f"segment {target.written:08x}, segment limit {target.unit_limit} bytes, {SAFETY[target.safety]}, "
        f"compression {target.framing.provider.label}",
        loses="what it said before: " + ", ".join(target.guessed) if target.guessed else "nothing",
        storage=storage,
        old=old,
        new=new,
        old_size=size,
        mode=mode,
    )
