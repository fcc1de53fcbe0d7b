"""Checks that a stream is still the one whose records were moved, before more of it is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everlog.core.family.migrating import Assigned
from everlog.core.report import Fault, Severity
from everlog.core.store import Store
from everlog.errors import CorruptData, DataLost, UsageError
from everlog.pipelines.migrate.notes import Progressed

IDENTITY = ("length", "crc32", "timestamp_ns", "session_id", "reserved_value")
"""Fields that identify the last moved record, as far as its family has them."""
_HINT = "the store was replaced or truncated: move it into a new target with its own notes"


def refuse_options(options: Mapping[str, Any]) -> None:
    """Raise :class:`UsageError` for options under which records have no permanent address."""
    if options.get("pre_commit"):
        message = "option preCommit does not apply to a migration: buffered messages have no address before the flush"
        raise UsageError("option preCommit", found="true", message=message)


def check_source(store: Store, assigned: Assigned, state: Progressed) -> DataLost | None:
    """Check the last moved record. Returns the error for records that were removed before they were moved, or ``None``.
    Raises :class:`CorruptData` if a different record or none is at its address, or if the stream ends before it. A
    record that is damaged now, or was removed after it was moved, is no error."""
    if state.last is None:
        return None
    last = store.parse_address(state.last)
    where = f"{assigned.store}: stream {assigned.stream}"
    faults: list[Fault] = []
    if (now := _record_at(store, assigned.stream, last, faults)) is not None:
        _check_identity(where, state, now)
        return None
    first = _first(store, assigned.stream)
    if first is not None and first > last:
        return _loss(store, where, first, last, state)
    if any(fault.severity is Severity.FAULT for fault in faults):
        return None
    if first is not None:
        end = _end(store, assigned.stream)
        found = (
            f"no record at {state.last}"
            if end is None or end > last
            else f"the stream's end at {store.format_address(end)}"
        )
        raise CorruptData(where, found=found, expected=f"the record at {state.last}, which was moved", hint=_HINT)
    return _check_empty(store, where, assigned.stream, last, state)


def _record_at(store: Store, stream: str, address: int, faults: list[Fault]) -> dict[str, Any] | None:
    available = {column.name for column in store.schema()}
    columns = [name for name in IDENTITY if name in available]
    for batch in store.scan(stream, columns=columns, start=address, end=address + 1, on_fault=faults.append):
        if batch.row_count:
            now = {name: batch.to_list(name)[0] for name in columns}
            return now | {"crc32": f"{now['crc32']:08x}"}
    return None


def _check_identity(where: str, state: Progressed, now: Mapping[str, Any]) -> None:
    """Compare the fields that are known on both sides; times are unknown if an option defines them."""
    differing = {
        name: value
        for name, value in (state.identity or {}).items()
        if value is not None and now.get(name) is not None and now[name] != value
    }
    if differing:
        found = ", ".join(f"{name} {now[name]}" for name in differing)
        expected = ", ".join(f"{name} {value}" for name, value in differing.items())
        raise CorruptData(
            where,
            found=f"a record with {found} at {state.last}",
            expected=f"{expected} as moved",
            hint=_HINT,
        )


def _first(store: Store, stream: str) -> int | None:
    """The address of the stream's first record, found by scanning."""
    for batch in store.scan(stream, columns=["address"], max_rows=1, on_fault=_pass):
        if batch.row_count:
            return store.parse_address(batch.to_list("address")[0])
    return None


def _end(store: Store, stream: str) -> int | None:
    """The end that the store lists, otherwise the one found by reading."""
    ends = [info.end for info in store.streams(include_all=True) if info.name == stream]
    if ends and ends[0] is not None:
        return store.parse_address(ends[0])
    return store.walked_end(stream)


def _pass(fault: Fault) -> None:
    """Ignore damage here; the move reports it."""


def _check_empty(store: Store, where: str, stream: str, last: int, state: Progressed) -> DataLost | None:
    """For a stream without records: whether it grew before they were removed."""
    end = _end(store, stream)
    if end is None or end <= last:
        expected = f"the record at {state.last}, which was moved, or an end after it"
        raise CorruptData(where, found="no records", expected=expected, hint=_HINT)
    return _loss(store, where, end, last, state)


def _loss(store: Store, where: str, first: int, last: int, state: Progressed) -> DataLost | None:
    """The error for records that were removed, or ``None``. With addresses of two columns consecutive records can't be
    recognised, so only a skipped number in the first column counts."""
    following = last + 1 if state.following is None else state.following
    is_lost = first >> 32 > (last >> 32) + 1 if len(store.address_columns) > 1 else first > following
    if not is_lost:
        return None
    return DataLost(
        where,
        found=f"the first record at {store.format_address(first)}",
        expected=f"it at {store.format_address(following)} or before, where the migration resumes",
        hint="records were removed before they were moved; failOnDataLoss=false continues without them",
    )
