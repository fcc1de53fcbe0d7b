"""The note that a query keeps of what it has committed: what makes a retry exact.

One file for each query, ``<query>.note``, JSON, exchanged as a whole. A crash while it is written leaves the old note
or the new one.

=====================  ==================================================================================
note                   means
=====================  ==================================================================================
none                   the query has appended nothing
``done``               its batches up to this one are in the target, whole
``plan``               of its batch ``plan.batch`` the first ``plan.appended`` messages are in the target; those
                       behind them, at most ``plan.most``, are there up to the first that is not, one behind the
                       other from ``plan.place`` on
=====================  ==================================================================================

From the moment a plan is noted, the batch is what its staged parts hold: a retry appends what is missing of them,
whatever rows it brings in which order.
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
    """A batch whose append was begun. ``time_ns``: of messages that have no time of their own."""

    batch: int
    parts: tuple[Part, ...]
    time_ns: int
    appended: int = 0
    most: int = 0
    place: Place | None = None

    @property
    def rows(self) -> int:
        """Messages of the batch."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class Note:
    """What a query has committed to ``target``; ``done`` is -1 before its first batch."""

    query: str
    target: str
    done: int = -1
    plan: Plan | None = None

    def planned(self, plan: Plan) -> Note:
        """With a plan."""
        return replace(self, plan=plan)

    def finished(self, batch: int) -> Note:
        """Behind a batch."""
        return Note(self.query, self.target, batch)


def check_key(key: str) -> str:
    """A query's key, which becomes part of file names. Raises :class:`UsageError`."""
    if not _KEY.fullmatch(key):
        raise UsageError("query", found=repr(key), expected="1 to 80 letters, digits and hyphens")
    return key


def batch_key(query: str, batch: int) -> str:
    """What the names of a batch's staged parts begin with."""
    return f"{check_key(query)}.{batch}"


def batch_of(name: str, query: str) -> int | None:
    """The batch that a staged part of the query is of; ``None`` for another file."""
    words = name.split(".")
    if len(words) != 5 or words[0] != query or not name.endswith(SUFFIX) or not words[1].isdecimal():
        return None
    return int(words[1])


def read_note(storage: WritableStorage, query: str) -> Note | None:
    """The note of a query. Raises :class:`CorruptData`."""
    name = check_key(query) + NOTE_SUFFIX
    return _read(storage, name) if storage.exists(name) else None


def read_notes(storage: WritableStorage) -> Iterator[Note]:
    """All notes. Raises :class:`CorruptData` for the first one that can't be read: it may be of a batch that was begun,
    by a later version or on a disk that answers again, and what is appended before that batch is finished could be
    taken for messages of it. Files that no query's note is called like are passed over."""
    for name in sorted(storage.names()):
        if name.endswith(NOTE_SUFFIX) and _KEY.fullmatch(name.removesuffix(NOTE_SUFFIX)):
            yield _read(storage, name)


def publish(storage: WritableStorage, note: Note) -> None:
    """Put a note in the place of the query's last one; on return it is on disk. Raises :class:`WriteFailed`; then the
    old one or the new one is there."""
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
            f"no query commits here while it can't be read: put it right, or, where query {query} will not come again, "
            "move it away; without it a batch that was begun is not finished; see docs/spark.md, Writing"
        )
        expected = f"a note of version {VERSION} of query {query}"
        raise CorruptData(where, found=_told(error), expected=expected, hint=hint) from error


def _told(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)


def _plan(plan: dict[str, Any]) -> Plan:
    place = {str(name): int(value) for name, value in plan["place"].items()}
    parts = tuple(Part(**part) for part in plan["parts"])
    return Plan(int(plan["batch"]), parts, int(plan["time_ns"]), int(plan["appended"]), int(plan["most"]), place)
