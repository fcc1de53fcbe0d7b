"""The interface that every family implements: streams, scans, splits, verification.

Internally an address is an ``int`` that orders the records of a stream (Aeron: position; JLog: log << 32 | marker; NATS
Streaming: sequence); ``parse_address`` and ``format_address`` convert it from and to text.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NoReturn, Self

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, Column, ColumnType, pick
from everlog.core.derived import DERIVED, FAMILY, STORE, STREAM, derive, needed_names
from everlog.core.files.storage import Storage
from everlog.core.options import check_type
from everlog.core.record import Record
from everlog.core.report import Fault, Progress, Report, Severity, VerifyPart
from everlog.core.splits import Split, SplitTimes
from everlog.errors import Closed, CorruptData, UsageError

if TYPE_CHECKING:
    from everlog.core.plan.plan import RepairPlan

LevelName = Literal["record", "frame"]
FaultSink = Callable[[Fault], None]
DEFAULT_SPLIT_BYTES = 64 << 20


class Level(Enum):
    """``RECORD``: whole messages. ``FRAME``: the fragments on disk, without padding and administrative frames."""

    RECORD = "record"
    FRAME = "frame"


class StreamInfo(NamedTuple):
    """A stream, as listed by ``ls``. ``first`` and ``last`` are the addresses of its first and last record, ``end`` is
    the address after the last. They and ``record_count`` are ``None`` if the stream is empty or only a scan would
    determine them. ``details`` are the family's own."""

    name: str
    family: str
    first: str | None
    last: str | None
    end: str | None
    record_count: int | None
    byte_count: int
    details: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What ``walk`` must return: ``columns`` are the family's own, without derived ones."""

    columns: tuple[Column, ...]
    start: int | None = None
    end: int | None = None
    level: Level = Level.RECORD
    max_rows: int = MAX_BATCH_ROWS
    max_bytes: int = MAX_BATCH_BYTES
    on_fault: FaultSink
    split: Split | None = None


def raise_fault(fault: Fault) -> None:
    """The default handler of faults met while reading: raises :class:`CorruptData` once the records before the fault
    have been returned. Ignores notes."""
    if fault.severity is Severity.NOTE:
        return
    raise CorruptData(fault.file, offset=fault.offset, found=fault.found, expected=fault.expected, hint=fault.code)


class Store(ABC):
    """A folder of one family, open for reading. Opening and reading never change a byte of it.

    Subclasses implement the abstract methods; ``scan``, ``read`` and the derived columns (``store``, ``family``,
    ``stream``, ``address``, ``timestamp``, ``crc32``) are built on them here. Every method of a closed store raises
    :class:`Closed`; closing it again does nothing.
    """

    family: ClassVar[str]
    options_class: ClassVar[type]
    _is_closed = False
    _last_picked: tuple[tuple[str, ...] | str | None, Level, tuple[Column, ...], tuple[Column, ...]] | None = None

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def path(self) -> str:
        """The folder's path or URL."""
        return self.storage.root

    @classmethod
    @abstractmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open for reading. ``options`` fill ``options_class``, a frozen keyword-only dataclass (see
        :mod:`everlog.core.options`)."""

    # Implemented by families

    @classmethod
    @abstractmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder looks like this family's. Reads names and a few bytes; missing files are no error."""

    @abstractmethod
    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """Return the streams; ``include_all`` adds those marked as deleted."""

    def planned_streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """As ``streams``, for planning a scan: addresses, counts and details that take long to find may be missing."""
        return self.streams(include_all=include_all)

    def stream_names(self, *, include_all: bool = False) -> list[str]:
        """The names of ``streams``, in the same order; no stream is opened if the family can avoid it."""
        return [info.name for info in self.planned_streams(include_all=include_all)]

    def open_ends(self, stream: str) -> tuple[int, ...]:
        """Return the addresses inside the stream before which a late writer may still add records, although later
        records exist; ``()`` if the stream grows at its end only. The stream's present end may become an open end
        later. An address before it that is not an open end never becomes one."""
        return ()

    def walked_end(self, stream: str) -> int | None:
        """Return the end of a stream that :meth:`streams` lists without one, found by reading; ``None`` if reading does
        not find it either."""
        return None

    def settled_end(self, stream: str) -> int | None:
        """Return the address up to which no late records can appear, or ``None`` if the stream grows at its end only.

        A pass that reads each record once, in order, must stop there and continue later. Ask before reading begins.
        """
        return min(self.open_ends(stream), default=None)

    @abstractmethod
    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """The columns that ``walk`` can return, ``timestamp_ns``, ``length`` and ``payload`` first."""

    @abstractmethod
    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Batches of the requested columns, in address order. Damage goes to ``request.on_fault``, and the walk
        continues after it. Raises :class:`UnknownStream`."""

    @abstractmethod
    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Parts that together cover every record of the range once, each of about ``split_bytes``. A larger segment is
        divided if the family can locate record boundaries without reading it."""

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """The known times of ``splits``, which must be those of one stream in order, as returned by ``splits()``. Reads
        only a few bytes of each."""

        return [SplitTimes()] * len(splits)

    @abstractmethod
    def parse_address(self, text: str) -> int:
        """Return the address that ``text`` names. Raises :class:`UsageError` if it names none."""

    @abstractmethod
    def format_address(self, address: int) -> str:
        """Return an address as the text that ``parse_address`` reads."""

    @property
    @abstractmethod
    def address_columns(self) -> tuple[str, ...]:
        """The integer columns that make the address: one for decimal text, two for ``%08x:%08x``."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The family's state as plain values: descriptors, subscriptions, clients, ..."""

    @abstractmethod
    def verify(self, progress: Progress | None = None) -> Report:
        """Check everything and report every fault. Never raises for damage, never changes a byte."""

    def verify_parts(self, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[VerifyPart]:
        """Parts that together check all that ``verify`` checks, each of about ``split_bytes``. A family whose checks
        can't be divided has one."""
        return [VerifyPart(0)]

    def verify_part(self, part: VerifyPart) -> Report:
        """Check one of ``verify_parts``; :mod:`everlog.core.verification` combines the reports."""
        return self.verify()

    def warnings(self) -> list[Fault] | None:
        """What an operator should act on now, found without reading everything: stalled subscribers, a disk that fills
        up. Does not cover damage (see ``verify``). ``None``: the family has no such checks."""
        return None

    def count_details(self, stream: str) -> dict[str, Any]:
        """Those details of the stream that ``streams`` leaves out as too expensive; reads as much as they take."""
        return {}

    def plan_repair(self, progress: Progress | None = None) -> RepairPlan:
        """Plan repairs for the faults that ``verify`` reports; nothing changes until the plan is applied. Raises
        :class:`UsageError` if the family, or the store's location, allows no repair."""
        raise UsageError(
            self.path,
            found=f"a store of family {self.family}",
            expected="a family with repairs",
            message=f"{self.path}: no repair for {self.family} stores",
        )

    def is_gone(self, stream: str, address: int) -> bool:
        """Whether the stream is gone or begins after ``address``, so that a record that was there has been removed."""
        infos = [info for info in self.streams() if info.name == stream]
        return not infos or any(info.first is not None and self.parse_address(info.first) > address for info in infos)

    def close(self) -> None:
        """Release what is open. A second call does nothing."""
        self._is_closed = True
        for name in _methods_of(type(self)):
            setattr(self, name, _refuse)

    # Common to all families

    def schema(self, stream: str | None = None, *, level: Level | LevelName = Level.RECORD) -> tuple[Column, ...]:
        """All columns that ``scan`` can return, the same for every stream of a family."""
        own = self.family_columns(as_level(level))
        return (STORE, FAMILY, STREAM, *DERIVED, *own)

    def scan(
        self,
        stream: str,
        *,
        columns: list[str] | tuple[str, ...] | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
        level: Level | LevelName = Level.RECORD,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Batch]:
        """Return bounded batches of ``columns`` (``None``: all) of the records with ``start <= address < end``.

        Damage goes to ``on_fault``, and reading continues after it; the default raises :class:`CorruptData`. Raises
        :class:`UnknownStream`, :class:`UsageError` for unknown columns or a wrong address, :class:`WrongType`.
        """
        check_type("stream", stream, str, "text")
        split = Split(stream, self._address(start), self._address(end), 0)
        return self.scan_split(
            split, columns=columns, level=level, max_rows=max_rows, max_bytes=max_bytes, on_fault=on_fault
        )

    def scan_split(
        self,
        split: Split,
        *,
        columns: list[str] | tuple[str, ...] | None = None,
        level: Level | LevelName = Level.RECORD,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Batch]:
        """As ``scan``, for one of ``splits``."""
        level = as_level(level)
        for name, most in (("max_rows", max_rows), ("max_bytes", max_bytes)):
            if most < 1:
                raise UsageError(name, found=str(most), expected="at least 1")
        wanted, own = self._picked(columns if columns is None or isinstance(columns, str) else tuple(columns), level)
        request = ScanRequest(
            columns=own,
            start=split.start,
            end=split.end,
            level=level,
            max_rows=max_rows,
            max_bytes=max_bytes,
            on_fault=on_fault,
            split=split if split.context is not None else None,
        )
        context = {"store": self.path, "family": self.family, "stream": split.stream}
        for batch in self.walk(split.stream, request):
            if self._is_closed:
                raise Closed("store")
            yield derive(batch, wanted, context, self.address_columns)

    def read(
        self,
        stream: str,
        start: str | int | None = None,
        end: str | int | None = None,
        *,
        level: Level | LevelName = Level.RECORD,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Record]:
        """Return an iterator of records with ``start <= address < end``; damage is handled as in ``scan``."""
        level = as_level(level)
        names = ["address", *(c.name for c in self.family_columns(level))]
        return records_of(
            stream, names, self.scan(stream, columns=names, start=start, end=end, level=level, on_fault=on_fault)
        )

    def _picked(
        self, names: tuple[str, ...] | str | None, level: Level
    ) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """Resolve names to columns: the requested ones, and the family's own from which they are made.

        The last result is cached, because reading many streams asks the same for each.
        """
        if self._last_picked is not None and self._last_picked[:2] == (names, level):
            return self._last_picked[2:]
        wanted = pick(self.schema(level=level), names)
        needed = needed_names(wanted, self.address_columns)
        own = tuple(column for column in self.family_columns(level) if column.name in needed)
        self._last_picked = names, level, wanted, own
        return wanted, own

    def _address(self, value: str | int | None) -> int | None:
        if value is None:
            return value
        check_type("address", value, str | int, "text or a whole number")
        return self.parse_address(value) if isinstance(value, str) else value

    def __enter__(self) -> Self:
        if self._is_closed:
            raise Closed("store")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


def _methods_of(kind: type[Store]) -> list[str]:
    """The public methods that a closed store of this class refuses."""
    names = [name for name in dir(kind) if not name.startswith("_") and name != "close"]
    return [name for name in names if isinstance(inspect.getattr_static(kind, name), FunctionType)]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Closed("store")


def records_of(stream: str, names: list[str], batches: Iterable[Batch]) -> Iterator[Record]:
    """The records in batches that have the columns ``names``: ``address``, ``timestamp_ns``, ``payload`` and others."""
    fixed = ("address", "timestamp_ns", "payload")
    own = [name for name in names if name not in fixed]
    for batch in batches:
        values = [batch.data[name].to_list(batch.row_count) for name in own]
        heads = [batch.data[name].to_list(batch.row_count) for name in fixed]
        for address, timestamp_ns, payload, *rest in zip(*heads, *values, strict=True):
            yield Record(stream, address, timestamp_ns, payload, dict(zip(own, rest, strict=True)))


def as_level(level: Level | str) -> Level:
    """Convert a level's name. Raises :class:`UsageError`."""
    try:
        return Level(level)
    except ValueError:
        raise UsageError("level", found=repr(level), expected="'record' or 'frame'") from None


TIMESTAMP_NS = Column("timestamp_ns", ColumnType.INT64, "nanoseconds since 1970, null if the family records no time")
LENGTH = Column("length", ColumnType.INT64, "payload bytes", nullable=False)
PAYLOAD = Column("payload", ColumnType.BINARY, "the message", nullable=False)
"""The three columns that start every family's ``family_columns``, in this order."""
