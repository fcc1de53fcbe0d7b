"""Lists the segment files of recordings, for an overview of many stores."""

from __future__ import annotations

import re

from everlog.core.family.overview import StoreOverview
from everlog.core.store import Store

_SEGMENT = re.compile(r"(\d+)-(-?\d*).*\.rec$")


def overview(store: Store) -> StoreOverview:
    """The sizes of the segment files, as the folder lists them; the catalog is not read."""
    found: dict[str, list[tuple[int, str, int]]] = {}
    for entry in store.storage.entries():
        match = _SEGMENT.match(entry.name) if entry.is_file else None
        if match:
            # Names with the same number, or with none, are in alphabetical order.
            number = int(match[2]) if match[2].lstrip("-") else 0
            found.setdefault(match[1], []).append((number, entry.name, entry.size))
    sizes = {stream: [size for _, _, size in sorted(files)] for stream, files in sorted(found.items())}
    return StoreOverview(segment_sizes=sizes)
