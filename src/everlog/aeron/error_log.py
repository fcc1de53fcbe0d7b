"""Reads the distinct error logs of drivers, archives and clusters, kept in their mark and CnC files. Source: Agrona,
DistinctErrorLog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everlog.aeron.layouts import ErrorEntry
from everlog.layout import Readable

ENTRY_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class DistinctError:
    """An error with its stack trace, its count, and the first and last time it was seen (milliseconds since 1970)."""

    observation_count: int
    first_observation_timestamp: int
    last_observation_timestamp: int
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "observation_count": self.observation_count,
            "first_observation_timestamp": self.first_observation_timestamp,
            "last_observation_timestamp": self.last_observation_timestamp,
            "text": self.text,
        }


def read_errors(data: Readable, start: int = 0, end: int | None = None) -> list[DistinctError]:
    """Read the errors in ``data[start:end]``. An entry with a length out of bounds ends the log; an entry that is still
    being written (without a time) is skipped."""
    end = len(data) if end is None else min(end, len(data))
    errors = []
    at = start
    while at + ErrorEntry.size <= end:
        entry = ErrorEntry.unpack_from(data, at)
        if not ErrorEntry.size <= entry.length <= end - at:
            break
        if entry.last_observation_timestamp > 0:
            text = str(data[at + ErrorEntry.size : at + entry.length], "utf-8", "replace")
            times = entry.first_observation_timestamp, entry.last_observation_timestamp
            errors.append(DistinctError(entry.observation_count, *times, text))
        at += (entry.length + ENTRY_ALIGNMENT - 1) & -ENTRY_ALIGNMENT
    return errors
