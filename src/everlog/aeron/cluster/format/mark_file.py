"""``cluster-mark.dat`` and ``cluster-mark-service-N.dat``: a component's identity, start time, heartbeat and distinct
errors. Source: ClusterMarkFile, ClusterToolOperator."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from everlog.aeron.cluster.format.layouts import COMPONENTS, ClusterMarkHeader
from everlog.aeron.error_log import DistinctError
from everlog.aeron.frames.constants import version_text
from everlog.aeron.mark_file import LIVENESS_TIMEOUT_MS, MarkBody, read_mark
from everlog.core.files.storage import LocalStorage, Storage
from everlog.errors import EverlogError, NotAStore

MARK_NAME = "cluster-mark.dat"
LINK_NAME = "cluster-mark.lnk"
SERVICE_MARK = re.compile(r"cluster-mark-service-(.+)\.(dat|lnk)", re.ASCII)
SCHEMA_ID = 110
SCHEMA_VERSION = 2
TEMPLATE_ID = 200
FAILED = -1
CLOSED = -1
MAX_LINK_BYTES = 4096
_SINCE = {"services_cluster_dir": 1}


@dataclass(frozen=True, slots=True)
class ClusterMark:
    """A mark file's content. ``name`` is the file's name in the node's folder, ``path`` its real path, which differs if
    a link file leads to it."""

    name: str
    path: str
    body: MarkBody[ClusterMarkHeader]

    @property
    def header(self) -> ClusterMarkHeader:
        """The header's fields."""
        return self.body.header

    @property
    def component(self) -> str:
        """The component's type, such as ``CONSENSUS_MODULE``; its number if it has no name."""
        return COMPONENTS.get(self.header.component_type, str(self.header.component_type))

    @property
    def label(self) -> str:
        """The component's name in sentences, such as ``the consensus module`` or ``service 0``."""
        if self.header.service_id >= 0:
            return f"service {self.header.service_id}"
        return f"the {self.component.lower().replace('_', ' ')}"

    @property
    def version(self) -> str:
        """The version, such as ``0.3.0``, or ``failed``."""
        return "failed" if self.header.version == FAILED else version_text(self.header.version)

    @property
    def errors(self) -> list[DistinctError]:
        """The distinct errors that the component logged."""
        return self.body.errors

    @property
    def is_closed(self) -> bool:
        """Whether the component closed the file cleanly."""
        return bool(self.header.activity_timestamp == CLOSED)

    def is_live(self, now_ms: int) -> bool:
        """Whether the component's last heartbeat is within the liveness timeout."""
        return abs(now_ms - self.header.activity_timestamp) <= LIVENESS_TIMEOUT_MS

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "file": self.name,
            **self.header.as_dict(),
            "component": self.component,
            "version": self.version,
            "schema_version": self.body.schema_version,
            **self.body.texts,
            "errors": [error.to_dict() for error in self.errors],
        }


def read_cluster_mark(data: bytes, name: str = MARK_NAME, path: str = "") -> ClusterMark:
    """Decode a mark file. Raises :class:`CorruptData` if its header is unreadable; other damage is in
    ``body.problem``."""
    return ClusterMark(name, path or name, read_mark(data, name, ClusterMarkHeader, SCHEMA_ID, TEMPLATE_ID, _SINCE))


def service_mark_names(names: list[str]) -> list[str]:
    """Select the names of services' mark files, in order of services. If a service has both a link and a file, take the
    link."""
    found: dict[str, str] = {}
    for name in sorted(names):
        match = SERVICE_MARK.fullmatch(name)
        if match and (match[2] == "lnk" or match[1] not in found):
            found[match[1]] = name
    return [found[key] for key in sorted(found, key=lambda key: (len(key), key))]


def load_mark(storage: Storage, name: str) -> ClusterMark | None:
    """Read a mark file, following its link file if there is one; the link may lead to any local folder.

    Returns ``None`` if the file is missing. Raises :class:`CorruptData` and :class:`StoreUnavailable`."""
    stem = name.removesuffix(".dat").removesuffix(".lnk")
    link, file = f"{stem}.lnk", f"{stem}.dat"
    if storage.exists(link):
        folder = _linked(storage, link)
        if folder is not None and folder.exists(file):
            return read_cluster_mark(folder.read_all(file), file, os.path.join(folder.root, file))
    if storage.exists(file):
        return read_cluster_mark(storage.read_all(file), file, os.path.join(storage.root, file))
    return None


def _linked(storage: Storage, link: str) -> Storage | None:
    """The local folder that a link file names; ``None`` if it does not exist."""
    with storage.open(link) as file:
        text = file.read_at(0, MAX_LINK_BYTES).decode("utf-8", "replace").strip()
    if not os.path.isabs(text) or not os.path.isdir(storage.root):
        return None
    try:
        return LocalStorage(text)
    except (EverlogError, NotAStore):
        return None
