"""A query's errors for stores that it can't read, and the decision which stores its options leave out."""

from __future__ import annotations

import logging

from everlog.core.files.storage import is_missing
from everlog.core.report import Fault
from everlog.discovery import FoundStore
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    KeyRefused,
    StoreUnavailable,
    UnknownStream,
    UnsupportedVersion,
    WriteFailed,
)
from everlog.pipelines.scan.options import SKIP, ScanOptions

LOG = logging.getLogger("everlog.spark")

FILE_GONE = frozenset({"segment-gone-while-read", "slice-gone-while-read"})
"""Codes of faults of a file that was deleted while it was read."""
SEALED = "encrypted"
"""Code of the note for payloads that look encrypted."""


def at_store(store: FoundStore, error: EverlogError) -> EverlogError:
    """The error with the store's path and the option that continues without the store."""
    way_out = "onFault=skip leaves the store out" if _is_damage(error) else "failOnDataLoss=false continues without it"
    hint = error.hint or way_out
    if way_out.partition(" ")[0] not in hint:
        hint += f"; {way_out}"
    return error.inside(store.path, hint)


def refused(store: FoundStore, error: KeyRefused) -> EverlogError:
    """The error with the store's path; no option continues without the right key."""
    return error.inside(store.path)


def removed(store: FoundStore, error: EverlogError, planned: str = "query") -> EverlogError:
    """The error of data that vanished after the ``planned`` query or export was planned, with the store's path."""
    hint = f"it was removed after the {planned} was planned; failOnDataLoss=false continues without it"
    return error.inside(store.path, error.hint or hint)


def is_gone(error: EverlogError) -> bool:
    """Whether a store, or a part of it, has vanished. Being unreachable does not count: callers that skip deleted
    stores must not skip an unreachable one."""
    if isinstance(error, StoreUnavailable):
        return not isinstance(error, WriteFailed) and is_missing(error)
    return isinstance(error, FileChanged | UnknownStream)


def out_of_reach(store: FoundStore, error: EverlogError) -> EverlogError:
    """The error with the store's path; no option continues without data that may still exist."""
    hint = "failOnDataLoss=false only skips removed data, and this may still exist"
    return error.inside(store.path, error.hint or hint)


def damage(path: str, fault: Fault, way_on: str) -> CorruptData:
    """A fault of the store at ``path`` as an error. ``way_on``: what ``onFault=skip`` does."""
    return CorruptData(
        f"{path}/{fault.file}",
        offset=fault.offset,
        found=fault.found,
        expected=fault.expected,
        hint=f"{fault.code}: a reader loses {fault.loses}; onFault=skip {way_on}",
    )


def warn_of_sealed(path: str, fault: Fault) -> None:
    """Log a warning if a store's payloads look encrypted and there is no key: they are passed on unchanged."""
    if fault.code == SEALED:
        LOG.warning("%s: %s: %s, and no key was given: they are passed on unchanged", path, fault.file, fault.found)


def is_left_out(scan: ScanOptions, error: EverlogError) -> bool:
    """Whether the options say to continue without a store that has this error."""
    return scan.on_fault == SKIP if _is_damage(error) else not scan.fail_on_data_loss


def _is_damage(error: EverlogError) -> bool:
    return isinstance(error, CorruptData | UnsupportedVersion)
