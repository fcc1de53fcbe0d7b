"""Reads the distinct error logs of drivers, archives and clusters, kept in their mark and CnC files. Source: Agrona,
DistinctErrorLog."""

from __future__ import annotations

from collections.abc import Iterator
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
    errors = []
    for at, entry in _entries(data, start, len(data) if end is None else min(end, len(data))):
        if entry.last_observation_timestamp > 0:
            text = str(data[at + ErrorEntry.size : at + entry.length], "utf-8", "replace")
            times = entry.first_observation_timestamp, entry.last_observation_timestamp
            errors.append(DistinctError(entry.observation_count, *times, text))
    return errors


def end_of_errors(data: Readable) -> int:
    """Where a log's next entry goes."""
    end = 0
    for at, entry in _entries(data, 0, len(data)):
        end = at + _aligned(entry.length)
    return min(end, len(data))


def _entries(data: Readable, start: int, end: int) -> Iterator[tuple[int, ErrorEntry]]:
    at = start
    while at + ErrorEntry.size <= end:
        entry = ErrorEntry.unpack_from(data, at)
        if not ErrorEntry.size <= entry.length <= end - at:
            return
        yield at, entry
        at += _aligned(entry.length)


def _aligned(length: int) -> int:
    return (length + ENTRY_ALIGNMENT - 1) & -ENTRY_ALIGNMENT
