"""What the parts of a service share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.client.aeron import Aeron


class RecordedPositions(Protocol):
    """How far the active recordings are: what replays, queries and maintenance ask of the recording part."""

    def recorded_position(self, recording_id: int) -> int | None:
        """The position after the last recorded byte of an active recording; ``None`` if it is not active."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceContext:
    """The client of the driver, whose work the service does itself (``use_invoker``); the folder; the settings.
    ``on_error`` logs an error for which there is no client to answer. ``now_ms`` is the time since 1970."""

    aeron: Aeron
    archive: Archive
    archive_id: int
    settings: ArchiveSettings
    on_error: Callable[[BaseException], None]
    now_ms: Callable[[], int]
