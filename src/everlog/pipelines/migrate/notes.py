"""Notes of what was moved, so that a migration of records can be repeated, even after a kill.

Next to a target is its folder of notes, ``TARGET.everlog-migrate``: ``moves.json`` assigns streams to places in the
target, and each stream has ``NAME.json``, its progress, and ``NAME.jsonl``, the manifest: a line for each record with
its old and its new address.

A note is atomically replaced and synced *before* records are appended. It describes each of them (``pending``), and the
target's end then shows which of them were appended. A crash while a note is replaced leaves the old or the new one; a
crash while the manifest grows leaves lines beyond the size in the note, which the next run truncates.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from everlog.core.family.migrating import Assigned
from everlog.core.files.writable import LocalWritableStorage, WritableFile, WritableStorage, make_folder
from everlog.core.json_text import parse_json
from everlog.errors import CorruptData, StoreUnavailable

SUFFIX = ".everlog-migrate"
MOVES_NAME = "moves"
MOVES, MOVES_LOCK = f"{MOVES_NAME}.json", f"{MOVES_NAME}.lock"
VERSION = 1
MAX_NAME = 100
SECONDS_FOR_THE_LOCK = 30.0
"""How long to wait for a task of a killed run, or for another run."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


def notes_folder(target: str, chosen: str | None = None) -> str:
    """The path of a target's notes."""
    return chosen or target.rstrip("/") + SUFFIX


def open_notes(folder: str) -> WritableStorage:
    """Open a folder of notes, created if it is missing. Raises :class:`WriteFailed`."""
    make_folder(folder)
    return LocalWritableStorage(folder)


def assign(folder: str, kind: str, streams: Sequence[tuple[str, str, str]], *, keep: bool = True) -> list[Assigned]:
    """Assign each of ``streams`` (store, family, stream) to a place: the one in the notes of ``folder``, or for new
    streams a new place. With ``keep`` new places are noted, on disk on return. Raises :class:`CorruptData` for invalid
    notes, or notes of another kind of target."""
    if not keep:
        known = _read_moves(LocalWritableStorage(folder), kind) if os.path.isdir(folder) else {}
        return _places(known, streams)
    storage = open_notes(folder)
    with held(storage, MOVES_LOCK):
        known = _read_moves(storage, kind)
        found = _places(known, streams)
        moves = [asdict(move) for move in known.values()]
        data = json.dumps({"version": VERSION, "kind": kind, "moves": moves}, indent=1).encode()
        storage.publish(MOVES, data, replace=True, sync=True)
    return found


def _places(known: dict[tuple[str, str], Assigned], streams: Sequence[tuple[str, str, str]]) -> list[Assigned]:
    """Adds the new streams to ``known``."""
    taken = {move.name for move in known.values()} | {MOVES_NAME}
    number = max((move.number for move in known.values()), default=-1) + 1
    for store, family, stream in streams:
        if (store, stream) not in known:
            name = _new_name(store, stream, taken)
            taken.add(name)
            known[store, stream] = Assigned(store, family, stream, name, secrets.token_hex(8), number)
            number += 1
    return [known[store, stream] for store, _, stream in streams]


def _read_moves(storage: WritableStorage, kind: str) -> dict[tuple[str, str], Assigned]:
    if not storage.exists(MOVES):
        return {}
    where = f"{storage.root}/{MOVES}"
    try:
        loaded = parse_json(storage.read_all(MOVES))
        moves = [_assigned(**move) for move in loaded["moves"]]
        # A stream of this name could be noted but never moved.
        known = {(move.store, move.stream): move for move in moves if move.name != MOVES_NAME}
        found, version = loaded["kind"], loaded["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(where, found="invalid content", expected="a migration's note") from error
    if (found, version) != (kind, VERSION):
        raise CorruptData(where, found=f"notes of {found}, version {version}", expected=f"{kind}, version {VERSION}")
    return known


def _assigned(**move: Any) -> Assigned:
    """Raises :class:`TypeError` for a value of a wrong type."""
    found = Assigned(**move)
    texts = (found.store, found.family, found.stream, found.name, found.token)
    if not all(isinstance(text, str) for text in texts) or type(found.number) is not int:
        raise TypeError(f"{move}")
    return found


def _new_name(store: str, stream: str, taken: set[str]) -> str:
    """The stream's name, escaped for a file name; with a mark if another store's stream has the same name, or if it is
    too long."""
    name = quote(stream.encode("utf-8", "surrogateescape"), safe=" =,@+").replace("~", "%7E")
    name = name.replace(".", "%2E", 1) if name.startswith(".") else name or "%"
    if name in taken or len(name) > MAX_NAME:
        mark = zlib.crc32(f"{store}\0{stream}".encode("utf-8", "surrogateescape"))
        name = f"{name[:MAX_NAME]}~{mark:08x}"
    return name


@contextmanager
def held(storage: WritableStorage, name: str) -> Iterator[None]:
    """Hold a lock file. Raises :class:`StoreUnavailable` if another process keeps it."""
    deadline = time.monotonic() + SECONDS_FOR_THE_LOCK
    with storage.open_writable(name, create=True) as file:
        while not file.hold():
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"{storage.root}/{name}",
                    found="another migration to the same target",
                    expected="no other migration",
                    message=f"another migration to the same target holds {storage.root}/{name}",
                )
            time.sleep(0.1)
        yield


@dataclass(slots=True)
class Pending:
    """A record that is being moved: its identity, and its line in the manifest. ``following``: the lowest possible
    address of the next record in its stream, ``None`` for the next address."""

    address: str
    length: int
    crc32: int
    manifest_line: dict[str, Any] = field(default_factory=dict)
    following: int | None = None


@dataclass(slots=True)
class Progressed:
    """A note's content. ``last`` is the last moved record's address in its stream; ``end`` is the target's end after
    it, in the target's addresses; ``manifest_bytes`` is the valid size of the manifest. ``identity`` and ``following``
    are the last moved record's, so that a later run recognises it; older notes lack them."""

    last: str | None = None
    end: int | None = None
    records: int = 0
    bytes: int = 0
    manifest_bytes: int = 0
    pending: list[Pending] = field(default_factory=list)
    identity: dict[str, Any] | None = None
    following: int | None = None


def _checked(state: Progressed) -> Progressed:
    """Raise :class:`TypeError` for values of a wrong type, since someone may have edited the note."""
    numbers = (state.records, state.bytes, state.manifest_bytes, state.end or 0, state.following or 0)
    if any(type(number) is not int for number in numbers) or not isinstance(state.last, str | None):
        raise TypeError(f"{numbers}, {state.last!r}")
    return state


class Note:
    """One stream's note and manifest, used by one process."""

    def __init__(self, storage: WritableStorage, name: str) -> None:
        self._storage = storage
        self._name = f"{name}.json"
        self._manifest_name = f"{name}.jsonl"
        self.state = self._read()
        self._manifest: WritableFile = storage.open_writable(self._manifest_name, create=True)
        if self._manifest.size() < self.state.manifest_bytes:
            found = f"{self._manifest.size()} bytes"
            self._manifest.close()
            raise CorruptData(self.manifest, found=found, expected=f"at least {self.state.manifest_bytes}")
        self._manifest.truncate(self.state.manifest_bytes)

    @property
    def manifest(self) -> str:
        """The manifest's path."""
        return f"{self._storage.root}/{self._manifest_name}"

    @property
    def path(self) -> str:
        """The note's path."""
        return f"{self._storage.root}/{self._name}"

    def _read(self) -> Progressed:
        return read_note(self._storage, self._name)

    def publish(self) -> None:
        """Replace the note; on return it is on disk."""
        state = self.state
        pending = [(p.address, p.length, p.crc32, p.manifest_line, p.following) for p in state.pending]
        content: dict[str, Any] = {"version": VERSION, "last": state.last, "end": state.end, "records": state.records}
        content |= {"bytes": state.bytes, "manifest_bytes": state.manifest_bytes, "pending": pending}
        content |= {"identity": state.identity, "following": state.following}
        data = _encode(content).encode()
        self._storage.publish(self._name, data, replace=True, sync=True)

    def accept(
        self, moved: Sequence[Pending], new: Sequence[str], end: int, identity: dict[str, Any] | None = None
    ) -> None:
        """Record that ``moved`` are in the target at the addresses ``new``; ``identity`` is the last one's. The other
        pending records are not there and will be moved again. The manifest is written at once, the note by the next
        ``publish``."""
        state = self.state
        if moved:
            lines = [
                _encode({"address": old.address, "new_address": address, **old.manifest_line})
                for old, address in zip(moved, new, strict=True)
            ]
            data = ("\n".join(lines) + "\n").encode()
            self._manifest.write_at(state.manifest_bytes, data)
            self._manifest.sync()
            state.manifest_bytes += len(data)
            state.last, state.following, state.identity = moved[-1].address, moved[-1].following, identity
            state.records += len(moved)
            state.bytes += sum(record.length for record in moved)
        state.end = end
        state.pending = []

    def close(self) -> None:
        """Close the manifest."""
        self._manifest.close()


def read_note(storage: WritableStorage, name: str) -> Progressed:
    """Read a note; a new one if there is none. Raises :class:`CorruptData`."""
    if not storage.exists(name):
        return Progressed()
    try:
        loaded = parse_json(storage.read_all(name))
        if loaded.pop("version") != VERSION:
            raise ValueError("another version")
        pending = [Pending(*record) for record in loaded.pop("pending")]
        return _checked(Progressed(**loaded, pending=pending))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        where = f"{storage.root}/{name}"
        raise CorruptData(where, found="invalid content", expected="a migration's note") from error
