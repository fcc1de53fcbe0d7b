"""Offsets of a live query: the next record of each stream of each store. Pure functions over the JSON that Spark keeps.

    {"version": 1, "stores": {"/data/archive": {"3": "4096", "7": ["1024", "2048"]}}}

Addresses are texts. ``["from", "to"]`` means that the batch that ends here began at ``from``, not where the previous
batch ended: the first batch of a stream, and the first one after a loss. So a batch that is repeated after a restart
has the same records, even if the query began at ``latest``, which has moved since. ``["from", "to", "again"]`` is a
batch of a recreated stream that has the same addresses as the previous batch: Spark runs no batch between equal
offsets. A stream that is not listed has not been read yet and begins at its first record.
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
    """The address of a stream's next record. ``origin``: where the batch that ends here began, if not where the
    previous one ended. ``again`` distinguishes it from a previous mark with the same addresses."""

    address: str
    origin: str | None = None
    again: bool = False

    def following(self, known: Mark | None) -> Mark:
        """This mark, made different from ``known`` by ``again`` if both have the same addresses."""
        return self._replace(again=not known.again) if known is not None and known[:2] == self[:2] else self


Marks = dict[str, dict[str, Mark]]
"""Store -> stream -> mark."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The marks of all streams. ``is_initial``: no batch has ended here yet."""

    marks: Marks = field(default_factory=dict)
    is_initial: bool = False


class Range(NamedTuple):
    """Records of a stream with ``start <= address < end``, or from the first record on if ``start`` is ``None``."""

    store: str
    stream: str
    start: str | None
    end: str


def to_json(offset: Offset) -> dict[str, Any]:
    """The form that Spark keeps; equal offsets give equal texts."""
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
    """Parse an offset. Raises :class:`UnsupportedVersion` if a newer everlog wrote it, :class:`CorruptData` if it is
    not an offset."""
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(version, int) or version < 1:
        raise CorruptData(WHERE, found=repr(data)[:80], expected="a JSON object with a version")
    if version > VERSION:
        raise UnsupportedVersion(
            WHERE, found=f"version {version}", expected=f"up to {VERSION}", hint="written by a newer everlog"
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
    raise CorruptData(WHERE, found=repr(value)[:80], expected="one or two addresses")


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
    """The addresses alone, without the batches' origins."""
    return {store: {name: mark.address for name, mark in streams.items()} for store, streams in marks.items()}
