"""Checks of the contract that every store keeps. Implementers run them over stores of their family::

    def test_the_store_keeps_the_contract(tmp_path):
        check_store(Subject(unpack("case.tar.gz", tmp_path), family="jlog"))

Each ``check_*`` function raises an :class:`AssertionError` that says what is wrong. Damaged stores are allowed: faults
met while reading are ignored, and every way of reading must return the same records around them.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from everlog.core.columns import ColumnType
from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import LENGTH, PAYLOAD, TIMESTAMP_NS, Level, Store
from everlog.errors import Closed, EverlogError, UnknownStream, UsageError
from everlog.stores import open_store
from everlog.testing.series import Series
from everlog.testing.storage.faulty import Faults, FaultyStorage

Row = tuple[Any, ...]

BATCH_BOUNDS = ((1, 1 << 20), (7, 1 << 20), (1000, 1), (1000, 700), (16_384, 4 << 20))
"""Pairs (max_rows, max_bytes) that must all give the same rows."""
SPLIT_BYTES = (1, 5_000, 1 << 40)
MAX_FAILING_READS = 12
"""The number of points at which :func:`check_failing_reads` makes reads fail."""
FULL = Series(1)
STOPPED_NS = 4_000_000_000_000_000_000
"""The time in the processes that ``check_kernels`` starts. Their clock stands still."""


@dataclass(frozen=True)
class Subject:
    """A store to check: its folder, and how to open it. ``levels`` are the levels that the family distinguishes."""

    path: Path
    family: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[Level, ...] = (Level.RECORD,)

    def open(self, storage: Storage | None = None) -> Store:
        """Open the store, through ``storage`` if given."""
        return open_store(storage or LocalStorage(self.path), family=self.family, **self.options)


def check_store(subject: Subject, *, kernels: bool = True, series: Series = FULL) -> None:
    """Run all checks. ``kernels=False`` skips the comparison with the Python twins, which starts two processes;
    :func:`check_kernels` can compare many stores at once. ``series`` sets how many streams are read, and at how many
    points reads fail."""
    before = snapshot(subject.path)
    with subject.open() as store:
        for level in subject.levels:
            check_schema(store, level)
        check_streams(store)
        check_wrong_names(store)
        for stream in series.points([info.name for info in store.streams()]):
            for level in subject.levels:
                rows = read_rows(store, stream, level)
                check_derived_columns(store, stream, level)
                check_batch_bounds(store, stream, level, rows)
                check_column_subsets(store, stream, level, rows)
                check_ranges(store, stream, level, rows)
                check_splits(store, stream, level, rows)
                check_read_equals_scan(store, stream, level, rows)
        check_info_and_report(store)
    check_closed(store)
    check_failing_reads(subject, series.rounds(MAX_FAILING_READS))
    if kernels:
        check_kernels([subject])
    assert snapshot(subject.path) == before, "reading changed the store's folder"


def snapshot(path: Path) -> dict[str, tuple[int, int, int, str]]:
    """Return mode, size, modification time and digest of each file and folder below ``path``."""
    found = {}
    for name in sorted(path.rglob("*")):
        status = name.lstat()
        digest = hashlib.sha256(name.read_bytes()).hexdigest() if name.is_file() else ""
        found[str(name.relative_to(path))] = status.st_mode, status.st_size, status.st_mtime_ns, digest
    return found


def read_rows(store: Store, stream: str, level: Level = Level.RECORD, **options: Any) -> list[Row]:
    """Return all rows of a scan with all columns, ignoring faults."""
    return [row for batch in store.scan(stream, level=level, on_fault=_pass, **options) for row in batch.rows()]


def check_schema(store: Store, level: Level) -> None:
    """Each column occurs once; the common columns and the address columns are present, and each has a description."""
    names = [column.name for column in store.schema(level=level)]
    assert len(set(names)) == len(names), f"a column occurs twice: {names}"
    own = store.family_columns(level)
    assert own[:3] == (TIMESTAMP_NS, LENGTH, PAYLOAD), f"family_columns starts with {own[:3]}"
    types = {column.name: column.type for column in own}
    for name in store.address_columns:
        assert types.get(name) in (ColumnType.INT32, ColumnType.INT64), f"address column {name}: {types.get(name)}"
    assert all(column.doc for column in own), f"columns without a description: {[c.name for c in own if not c.doc]}"


def check_streams(store: Store) -> None:
    """Names are unique, addresses survive conversion to text, and the list agrees with a scan."""
    infos = store.streams()
    assert len({info.name for info in infos}) == len(infos), "two streams have the same name"
    assert {info.name for info in infos} <= {info.name for info in store.streams(include_all=True)}
    for info in infos:
        assert info.family == store.family
        for text in (info.first, info.last, info.end):
            assert text is None or store.format_address(store.parse_address(text)) == text
        faults: list[Fault] = []
        addresses = _addresses(store, info.name, faults)
        if faults or not addresses:
            continue
        if info.record_count is not None:
            assert info.record_count == len(addresses), (
                f"{info.name}: {info.record_count} listed, {len(addresses)} read"
            )
        if info.first is not None:
            assert store.parse_address(info.first) <= addresses[0], f"{info.name}: first {info.first}"
        if info.last is not None:
            assert store.parse_address(info.last) == addresses[-1], f"{info.name}: last {info.last}"
        if info.end is not None:
            assert store.parse_address(info.end) > addresses[-1], f"{info.name}: end {info.end}"


def check_wrong_names(store: Store) -> None:
    """An unknown stream, column or address is a usage error."""
    _refuses(UnknownStream, store, "no such stream / at all")
    for info in store.streams()[:1]:
        _refuses(UsageError, store, info.name, columns=["no such column"])
        _refuses(UsageError, store, info.name, start="no address!")


def check_derived_columns(store: Store, stream: str, level: Level) -> None:
    """``address``, ``timestamp``, ``crc32`` and ``length`` follow from the others; addresses rise."""
    names = ["store", "family", "stream", "address", "timestamp", "crc32", "timestamp_ns", "length", "payload"]
    last = None
    for batch in store.scan(stream, columns=names, level=level, on_fault=_pass):
        for where, family, name, address, timestamp, crc32, timestamp_ns, length, payload in batch.rows():
            assert (where, family, name) == (store.path, store.family, stream)
            assert length == len(payload), f"{stream} {address}: length {length}, payload {len(payload)} bytes"
            assert crc32 == zlib.crc32(payload), f"{stream} {address}: crc32"
            assert timestamp == (None if timestamp_ns is None else timestamp_ns // 1000)
            at = store.parse_address(address)
            assert last is None or at > last, f"{stream}: {address} does not come after the record before it"
            last = at


def check_batch_bounds(store: Store, stream: str, level: Level, rows: list[Row]) -> None:
    """Batches of any size hold the same rows and keep to their limits, except for their last row."""
    for max_rows, max_bytes in BATCH_BOUNDS:
        found: list[Row] = []
        for batch in store.scan(stream, level=level, max_rows=max_rows, max_bytes=max_bytes, on_fault=_pass):
            assert batch.row_count <= max_rows, f"{batch.row_count} rows in a batch of {max_rows}"
            lengths = batch.to_list("length")
            # A message's size is known only at its last fragment, so one message may exceed the limit.
            assert sum(lengths[:-1]) <= max_bytes, f"{lengths} bytes in a batch of {max_bytes}"
            found += batch.rows()
        _same(f"{stream} in batches of {max_rows} rows, {max_bytes} bytes", found, rows)


def check_column_subsets(store: Store, stream: str, level: Level, rows: list[Row]) -> None:
    """Each column alone, and some together in any order, have the same values as in a full scan."""
    names = [column.name for column in store.schema(level=level)]
    without_payload = [name for name in reversed(names) if name not in ("payload", "crc32")]
    for subset in [[name] for name in names] + [without_payload, ["payload", "address"]]:
        picked = [names.index(name) for name in subset]
        expected = [tuple(row[i] for i in picked) for row in rows]
        _same(f"{stream}: columns {subset}", read_rows(store, stream, level, columns=subset), expected)


def check_ranges(store: Store, stream: str, level: Level, rows: list[Row]) -> None:
    """``start`` is inclusive and ``end`` exclusive, as text and as numbers, at a record and between two records."""
    at = [store.parse_address(row[3]) for row in rows]
    count = len(rows)
    for first, last in sorted({(0, count // 2), (count // 3, count), (count // 2, count // 2 + 1), (count - 1, count)}):
        if not 0 <= first < last <= count:
            continue
        end = at[last] if last < count else None
        label = f"{stream} from record {first} to {last}"
        _same(label, read_rows(store, stream, level, start=at[first], end=end), rows[first:last])
        text_end = None if end is None else store.format_address(end)
        text_start = store.format_address(at[first])
        _same(label + " as text", read_rows(store, stream, level, start=text_start, end=text_end), rows[first:last])
        after = [row for row, address in zip(rows, at, strict=True) if address >= at[first] + 1]
        _same(label + ", start just after", read_rows(store, stream, level, start=at[first] + 1), after)
    if rows:
        assert read_rows(store, stream, level, end=at[0]) == []
        assert read_rows(store, stream, level, start=at[-1] + 1) == []
        assert read_rows(store, stream, level, start=at[0], end=at[0]) == []


def check_splits(store: Store, stream: str, level: Level, rows: list[Row]) -> None:
    """Pickled splits cover each record once and in order, also in a range."""
    at = [store.parse_address(row[3]) for row in rows]
    middle = at[len(at) // 2] if at else None
    for split_bytes in SPLIT_BYTES:
        _same(f"{stream} in splits of {split_bytes}", _split_rows(store, stream, level, split_bytes=split_bytes), rows)
        if middle is not None:
            head = _split_rows(store, stream, level, split_bytes=split_bytes, end=middle)
            tail = _split_rows(store, stream, level, split_bytes=split_bytes, start=middle)
            _same(f"{stream} before its middle, in splits of {split_bytes}", head, rows[: len(rows) // 2])
            _same(f"{stream} from its middle, in splits of {split_bytes}", tail, rows[len(rows) // 2 :])


def check_read_equals_scan(store: Store, stream: str, level: Level, rows: list[Row]) -> None:
    """``read`` returns what ``scan`` returns."""
    names = [column.name for column in store.schema(level=level)]
    records = list(store.read(stream, level=level, on_fault=_pass))
    assert len(records) == len(rows)
    for record, row in zip(records, rows, strict=True):
        values = dict(zip(names, row, strict=True))
        assert (record.stream, record.address) == (stream, values["address"])
        assert (record.timestamp_ns, record.payload) == (values["timestamp_ns"], values["payload"])
        assert record.fields == {name: values[name] for name in record.fields}


def check_info_and_report(store: Store) -> None:
    """``info``, ``verify`` and ``warnings`` return plain values; ``verify`` is repeatable and never raises."""
    assert json.loads(json.dumps(store.info())) is not None
    warnings = [fault.to_dict() for fault in store.warnings() or ()]
    assert json.loads(json.dumps(warnings)) == warnings
    seen: list[tuple[str, int, int]] = []
    first = store.verify(lambda what, done, total: seen.append((what, done, total)))
    assert all(0 <= done <= total for _, done, total in seen), f"progress beyond its total: {seen}"
    assert json.dumps(first.to_dict()) == json.dumps(store.verify().to_dict())
    assert first.family == store.family
    assert all(fault.code and not fault.file.startswith("/") for fault in first.faults)


def check_closed(store: Store) -> None:
    """A closed store refuses every use; closing it again does nothing."""
    store.close()
    by_stream: list[Callable[[str], object]] = [store.read, store.scan, store.splits]
    uses: list[Callable[[], object]] = [store.streams, store.info, store.verify, *(partial(f, "a") for f in by_stream)]
    for use in uses:
        try:
            use()
        except Closed:
            continue
        raise AssertionError("a closed store was used without an error")


def check_failing_reads(subject: Subject, most: int = MAX_FAILING_READS) -> None:
    """If reads fail or files are cut during reading, the store raises an error or loses rows, but never returns a row
    that did not exist. Tries about ``most`` points, evenly spread over all reads."""
    counter = FaultyStorage(LocalStorage(subject.path))
    with subject.open(counter) as store:
        streams = [info.name for info in store.streams()]
        names = [column.name for column in store.schema()]
        # Addresses may depend on the lost part: JLog counts messages, and its index may disagree with that count.
        kept = [i for i, name in enumerate(names) if name != "address" and name not in store.address_columns]
        true_rows = {tuple(row[i] for i in kept) for stream in streams for row in read_rows(store, stream)}
    step = max(1, counter.read_count // most)
    for number in range(0, counter.read_count, step):
        _survives(subject, Faults(fail_read=number), kept, true_rows)
        for offset in (0, 1, 50, 5000):
            _survives(subject, Faults(cut_read=number, cut_offset=offset), kept, true_rows)


def check_kernels(subjects: Sequence[Subject]) -> None:
    """The compiled modules and their Python twins return the same rows, streams and reports for each store. One process
    of each kind reads all stores."""
    compiled, twins = (_digests_in_process(subjects, pure) for pure in ("0", "1"))
    assert len(compiled) == len(twins) == len(subjects)
    differing = [str(one.path) for one, a, b in zip(subjects, compiled, twins, strict=True) if a != b]
    assert differing == [], f"compiled modules and Python twins differ at {', '.join(differing)}"


def digest(subject: Subject) -> str:
    """Return a digest of everything that a store returns."""
    total = hashlib.sha256()
    with subject.open() as store:
        for level in subject.levels:
            for info in store.streams(include_all=True):
                total.update(repr(info).encode())
                for row in read_rows(store, info.name, level):
                    total.update(repr(row).encode())
        total.update(json.dumps([store.info(), store.verify().to_dict()], sort_keys=True).encode())
    return total.hexdigest()


def _digests_in_process(subjects: Sequence[Subject], pure: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from everlog.testing.contract import _main; _main()"],
        input=pickle.dumps(list(subjects)),
        capture_output=True,
        env=os.environ | {"EVERLOG_PURE_PYTHON": pure},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


def _main() -> None:
    time.time_ns = lambda: STOPPED_NS  # ages, such as a subscriber's lag, must be equal in both processes
    # Safe to unpickle: the parent process is this module too.
    for subject in pickle.load(sys.stdin.buffer):
        print(digest(subject))


def _survives(subject: Subject, faults: Faults, kept: list[int], true_rows: set[Row]) -> None:
    try:
        with subject.open(FaultyStorage(LocalStorage(subject.path), faults)) as store:
            for info in store.streams():
                for row in _rows_until_error(store, info.name):
                    known = tuple(row[i] for i in kept) in true_rows
                    assert known, f"{faults}: {info.name}: {_short(row)} was never written"
            store.verify()
    except EverlogError:
        return


def _rows_until_error(store: Store, stream: str) -> Iterator[Row]:
    try:
        for batch in store.scan(stream, on_fault=_pass):
            yield from batch.rows()
    except EverlogError:
        return


def _split_rows(store: Store, stream: str, level: Level, **options: Any) -> list[Row]:
    found: list[Row] = []
    for split in store.splits(stream, **options):
        copy: Split = pickle.loads(pickle.dumps(split))
        assert copy.byte_count >= 0
        for batch in store.scan_split(copy, level=level, on_fault=_pass):
            found += batch.rows()
    return found


def _addresses(store: Store, stream: str, faults: list[Fault]) -> list[int]:
    batches = store.scan(stream, columns=["address"], on_fault=faults.append)
    return [store.parse_address(text) for batch in batches for text in batch.to_list("address")]


def _same(label: str, found: list[Row], expected: list[Row]) -> None:
    if found == expected:
        return
    detail = f"{len(found)} rows, expected {len(expected)}"
    for index, (a, b) in enumerate(zip(found, expected, strict=False)):
        if a != b:
            detail += f"; row {index} is {_short(a)}, expected {_short(b)}"
            break
    raise AssertionError(f"{label}: {detail}")


def _short(row: Row) -> str:
    text = repr(row)
    return text if len(text) <= 500 else text[:500] + "..."


def _refuses(kind: type[EverlogError], store: Store, stream: str, **options: Any) -> None:
    try:
        list(store.scan(stream, **options))
    except kind:
        return
    raise AssertionError(f"scan({stream!r}, {options}) raised no {kind.__name__}")


def _pass(fault: Fault) -> None:
    """Ignore damage."""


__all__ = [
    "Subject",
    "check_batch_bounds",
    "check_closed",
    "check_column_subsets",
    "check_derived_columns",
    "check_failing_reads",
    "check_info_and_report",
    "check_kernels",
    "check_ranges",
    "check_read_equals_scan",
    "check_schema",
    "check_splits",
    "check_store",
    "check_streams",
    "check_wrong_names",
    "digest",
    "read_rows",
    "snapshot",
]
