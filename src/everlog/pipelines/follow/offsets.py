"""Offsets of a live query: store -> stream -> where the next record is. Pure functions over what Spark keeps as JSON.

    {"version": 1, "stores": {"/data/archive": {"3": "4096", "7": ["1024", "2048"]}}}

An address is text, as everywhere. Of ``["from", "to"]`` the batch that ends here began at ``from``, wherever the one
before it ended: the first batch of a stream, and one behind a loss. So a batch that is run again after a restart has
the same records, even where the query began at ``latest``, which by then is somewhere else. ``["from", "to", "again"]``
is a batch of a stream made anew that has the addresses of the batch before: Spark runs no batch between equal offsets.
A stream that is not named has not been read yet: it begins at its first record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everlog.errors import CorruptData, UnsupportedVersion

VERSION = 1
WHERE = "offset of a live query"
AGAIN = "again"


class Mark(NamedTuple):
    """Where the next record of a stream is; ``origin``: where the batch that ends here began, if not where the one
    before it ended. ``again``: tells it from the mark before, which has the same addresses."""

    address: str
    origin: str | None = None
    again: bool = False

    def behind(self, known: Mark | None) -> Mark:
        """This mark as it follows on another."""
        return self._replace(again=not known.again) if known is not None and known[:2] == self[:2] else self


Marks = dict[str, dict[str, Mark]]
"""Store -> stream -> mark."""


@dataclass(frozen=True, slots=True)
class Offset:
    """``is_initial``: no batch ended here yet."""

    marks: Marks = field(default_factory=dict)
    is_initial: bool = False


class Range(NamedTuple):
    """Records of a stream with ``start <= address < end``; without ``start`` from the first one on."""

    store: str
    stream: str
    start: str | None
    end: str


def to_json(offset: Offset) -> dict[str, Any]:
    """As Spark keeps it; equal offsets give equal text."""
    stores = {
        store: {
            stream: mark.address if mark.origin is None else [mark.origin, mark.address, *[AGAIN] * mark.again]
            for stream, mark in sorted(streams.items())
        }
        for store, streams in sorted(offset.marks.items())
    }
    found: dict[str, Any] = {"version": VERSION, "stores": stores}
    return found | {"initial": True} if offset.is_initial else found


def from_json(data: Any) -> Offset:
    """Raises :class:`UnsupportedVersion` for one of a newer everlog, :class:`CorruptData` for what is none."""
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(version, int) or version < 1:
        raise CorruptData(WHERE, found=repr(data)[:80], expected="a JSON object with a version")
    if version > VERSION:
        raise UnsupportedVersion(
            WHERE, found=f"version {version}", expected=f"up to {VERSION}", hint="made by a newer everlog"
        )
    stores = data.get("stores")
    if not isinstance(stores, dict) or not all(isinstance(streams, dict) for streams in stores.values()):
        raise CorruptData(WHERE, found=repr(stores)[:80], expected="stores with their streams")
    marks = {store: {name: _mark(value) for name, value in streams.items()} for store, streams in stores.items()}
    return Offset(marks, data.get("initial") is True)


def _mark(value: Any) -> Mark:
    if isinstance(value, str):
        return Mark(value)
    if isinstance(value, list) and len(value) in (2, 3) and all(isinstance(part, str) for part in value):
        return Mark(value[1], value[0], value[2:] == [AGAIN])
    raise CorruptData(WHERE, found=repr(value)[:80], expected="an address, or two")


def ranges(start: Offset, end: Offset) -> Iterator[Range]:
    """What a batch between two offsets reads, in the order of the offset's text."""
    for store, streams in sorted(end.marks.items()):
        before = start.marks.get(store, {})
        for stream, mark in sorted(streams.items()):
            known = before.get(stream)
            if mark == known:
                continue
            origin = mark.origin if mark.origin is not None else None if known is None else known.address
            if origin != mark.address:
                yield Range(store, stream, origin, mark.address)


def addresses(marks: Marks) -> Mapping[str, Mapping[str, str]]:
    """Without where batches began."""
    return {store: {name: mark.address for name, mark in streams.items()} for store, streams in marks.items()}
