"""The note of what a query has committed, which makes retries exact.

One JSON file for each query, ``<query>.note``, replaced atomically: a crash while writing leaves the old note or the
new one.

=====================  ==================================================================================
note                   meaning
=====================  ==================================================================================
none                   the query has appended nothing
``done``               its batches up to this one are completely in the target
``plan``               the first ``plan.appended`` messages of batch ``plan.batch`` are in the target; of the
                       next ``plan.most`` messages a prefix may be there, contiguous from ``plan.place`` on
=====================  ==================================================================================

Once a plan is noted, its staged parts define the batch: a retry appends what is missing of them, regardless of the rows
that the retry brings and their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from everlog.core.appending.target import Place
from everlog.core.files.writable import WritableStorage
from everlog.core.json_text import parse_json
from everlog.errors import CorruptData, UsageError
from everlog.pipelines.append.staging import SUFFIX, Part

NOTE_SUFFIX = ".note"
VERSION = 1
_KEY = re.compile(r"[A-Za-z0-9-]{1,80}")


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch whose appending has begun. ``time_ns`` is the time of messages that have none of their own."""

    batch: int
    parts: tuple[Part, ...]
    time_ns: int
    appended: int = 0
    most: int = 0
    place: Place | None = None

    @property
    def rows(self) -> int:
        """The batch's number of messages."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class Note:
    """What a query has committed to ``target``; ``done`` is -1 before its first batch."""

    query: str
    target: str
    done: int = -1
    plan: Plan | None = None

    def planned(self, plan: Plan) -> Note:
        """A copy with this plan."""
        return replace(self, plan=plan)

    def finished(self, batch: int) -> Note:
        """The note after ``batch`` was committed."""
        return Note(self.query, self.target, batch)


def check_key(key: str) -> str:
    """Return a query's key, which becomes part of file names. Raises :class:`UsageError` if it is not 1 to 80 letters,
    digits and hyphens."""
    if not _KEY.fullmatch(key):
        raise UsageError("query", found=repr(key), expected="1 to 80 letters, digits and hyphens")
    return key


def batch_key(query: str, batch: int) -> str:
    """The prefix of the names of a batch's staged parts."""
    return f"{check_key(query)}.{batch}"


def batch_of(name: str, query: str) -> int | None:
    """The batch of a query's staged part; ``None`` for any other file."""
    words = name.split(".")
    if len(words) != 5 or words[0] != query or not name.endswith(SUFFIX) or not words[1].isdecimal():
        return None
    return int(words[1])


def read_note(storage: WritableStorage, query: str) -> Note | None:
    """The note of a query, ``None`` if it has none. Raises :class:`CorruptData`."""
    name = check_key(query) + NOTE_SUFFIX
    return _read(storage, name) if storage.exists(name) else None


def read_notes(storage: WritableStorage) -> Iterator[Note]:
    """All notes; files whose names are not those of notes are skipped. Raises :class:`CorruptData` for the first
    unreadable note: its batch may have been begun, and messages appended before that batch is finished could be
    mistaken for its own."""
    for name in sorted(storage.names()):
        if name.endswith(NOTE_SUFFIX) and _KEY.fullmatch(name.removesuffix(NOTE_SUFFIX)):
            yield _read(storage, name)


def publish(storage: WritableStorage, note: Note) -> None:
    """Replace the query's note; on return it is on disk. Raises :class:`WriteFailed`; then either the old note or the
    new one is there."""
    plan = note.plan
    body: dict[str, Any] = {"version": VERSION, "query": note.query, "target": note.target, "done": note.done}
    if plan is not None:
        body["plan"] = {
            "batch": plan.batch,
            "appended": plan.appended,
            "most": plan.most,
            "place": plan.place,
            "time_ns": plan.time_ns,
            "parts": [part.to_dict() for part in plan.parts],
        }
    data = json.dumps(body, indent=1).encode()
    storage.publish(check_key(note.query) + NOTE_SUFFIX, data, replace=True, sync=True)


def _read(storage: WritableStorage, name: str) -> Note:
    where, query = f"{storage.root}/{name}", name.removesuffix(NOTE_SUFFIX)
    try:
        body = parse_json(storage.read_all(name))
        if body["version"] != VERSION:
            raise ValueError(f"version {body['version']}")
        if body["query"] != query:
            raise ValueError(f"the note of query {body['query']}")
        plan = body.get("plan")
        parsed = None if plan is None else _plan(plan)
        return Note(str(body["query"]), str(body["target"]), int(body["done"]), parsed)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        hint = (
            f"no query can commit until it is readable: repair it, or move it away if query {query} ends; "
            "without it a batch that was begun is not finished; see docs/spark.md, Writing"
        )
        expected = f"a note of version {VERSION} of query {query}"
        raise CorruptData(where, found=_reason(error), expected=expected, hint=hint) from error


def _reason(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)


def _plan(plan: dict[str, Any]) -> Plan:
    place = {str(name): int(value) for name, value in plan["place"].items()}
    parts = tuple(Part(**part) for part in plan["parts"])
    return Plan(int(plan["batch"]), parts, int(plan["time_ns"]), int(plan["appended"]), int(plan["most"]), place)
