"""What an append guarantees, in terms that all families share."""

from __future__ import annotations

from enum import StrEnum


class Durability(StrEnum):
    """What is certain when an append returns. ``BUFFERED``: the message survives the death of the process; readers see
    it after a flush. ``WRITTEN``: readers see it, and it survives the death of the process; a power cut may lose it.
    ``SYNCED``: it survives a power cut."""

    BUFFERED = "buffered"
    WRITTEN = "written"
    SYNCED = "synced"
