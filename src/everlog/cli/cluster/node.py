"""The parts that all verbs share: opening a node's folder, and printing its mark files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from everlog.aeron.cluster.format.layouts import ClusterMarkHeader
from everlog.aeron.cluster.format.mark_file import (
    MARK_NAME,
    SCHEMA_ID,
    SCHEMA_VERSION,
    TEMPLATE_ID,
    ClusterMark,
    load_mark,
    service_mark_names,
)
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, RecordingLog
from everlog.aeron.cluster.store import ClusterStore
from everlog.cli.aeron_text import Name, clock_text, sbe_text
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import printable
from everlog.core.files.storage import LocalStorage, Storage
from everlog.errors import EverlogError, NotAStore, StoreUnavailable
from everlog.stores import storage_of

F = TypeVar("F", bound=Callable[..., Any])
NOT_DONE = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A node's folder and its archive, as given on the command line."""

    folder: str
    archive_dir: str | None = None

    def open(self) -> ClusterStore:
        """Open the node. Raises :class:`NotAStore`."""
        return open_node(self.folder, self.archive_dir)


def open_node(folder: str, archive_dir: str | None = None) -> ClusterStore:
    """Open a cluster node's folder. Raises :class:`NotAStore`."""
    storage = storage_of(folder)
    if not ClusterStore.detect(storage):
        found = "neither a recording log nor a mark file"
        raise NotAStore(folder, found=found, message=f"no cluster node here: {folder} has {found}")
    return ClusterStore.open(storage, {"archive_dir": archive_dir})


def json_option(command: F) -> F:
    """Decorator that adds ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def require_recording_log(store: ClusterStore, faults: FaultPrinter) -> RecordingLog:
    """The recording log, after reporting its faults. Raises :class:`StoreUnavailable` without one."""
    if not store.folder.has_recording_log:
        path = f"{store.path}/{RECORDING_LOG_NAME}"
        raise StoreUnavailable(path, found="no recording log", message=f"no recording log: {path}")
    for fault in store.folder.recording_log.faults:
        faults(fault)
    return store.folder.recording_log


def require_mark(store: ClusterStore) -> ClusterMark:
    """The consensus module's mark file. Raises :class:`StoreUnavailable` without one."""
    mark = store.folder.mark()
    if mark is None:
        path = f"{store.path}/{MARK_NAME}"
        raise StoreUnavailable(path, found="no mark file", message=f"no mark file: {path}")
    return mark


def service_marks(store: ClusterStore, own: ClusterMark | None) -> list[ClusterMark]:
    """The services' mark files: in the node's folder, else in the folder that the module's mark file names."""
    storage: Storage = store.storage
    named = own.body.texts.get("services_cluster_dir", "") if own is not None else ""
    if named and not service_mark_names(storage.names()) and os.path.isdir(named):
        storage = LocalStorage(named)
    found = []
    for name in service_mark_names(storage.names()):
        try:
            mark = load_mark(storage, name)
        except EverlogError as error:
            raise type(error)(
                name, offset=error.offset, found=error.found, expected=error.expected, message=error.message
            ) from error
        found += [] if mark is None else [mark]
    return found


def heading(mark: ClusterMark) -> str:
    """``Type: CONSENSUS_MODULE 06:25:15 (start: ..., activity: ...)``."""
    return f"Type: {mark.component} {clock_text(mark.header.start_timestamp, mark.header.activity_timestamp)}"


def mark_text(mark: ClusterMark) -> str:
    """A mark file's header and texts, as ClusterTool prints them."""
    fields: dict[str, Any] = {**mark.header.as_dict(), **mark.body.texts}
    fields["component_type"] = Name(mark.component)
    body = mark.body
    version = body.schema_version if body.header_offset else SCHEMA_VERSION
    lengths = body.block_length, ClusterMarkHeader.size
    return sbe_text("MarkFileHeader", TEMPLATE_ID, SCHEMA_ID, (version, SCHEMA_VERSION), lengths, fields)


def exists_text(mark: ClusterMark) -> str:
    """The line that the original prints before it opens a service's mark file."""
    return f"INFO: mark file exists: {printable(os.path.abspath(mark.path))}"
