"""The protocol that every family implements: streams, scans, splits, verification.

Inside everlog an address is an ``int`` that orders the records of a stream (Aeron: position; JLog: log << 32 |
marker; NATS Streaming: sequence); ``parse_address`` and ``format_address`` translate to the text that people see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, Column, ColumnType, pick
from everlog.core.derived import DERIVED, FAMILY, STORE, STREAM, derive
from everlog.core.files.storage import Storage
from everlog.core.record import Record
from everlog.core.report import Fault, Progress, Report, Severity, VerifyPart
from everlog.core.splits import Split, SplitTimes
from everlog.errors import CorruptData, UsageError

if TYPE_CHECKING:
    from everlog.core.plan.plan import RepairPlan

FaultSink = Callable[[Fault], None]
DEFAULT_SPLIT_BYTES = 64 << 20


class Level(Enum):
    """``RECORD``: whole messages. ``FRAME``: the pieces that are on disk, padding and administrative frames left
    out.
    """

    RECORD = "record"
    FRAME = "frame"


class StreamInfo(NamedTuple):
    """A stream, as ``ls`` lists it. ``first`` and ``last`` are the addresses of its first and last record, ``end``
    the address after it; ``None`` where empty or not known without a scan, as is ``record_count``. ``details`` are
    the family's own.
    """

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
    """What a family's ``walk`` is asked for: ``columns`` are the family's own (no derived ones)."""

    columns: tuple[Column, ...]
    start: int | None = None
    end: int | None = None
    level: Level = Level.RECORD
    max_rows: int = MAX_BATCH_ROWS
    max_bytes: int = MAX_BATCH_BYTES
    on_fault: FaultSink
    split: Split | None = None


def raise_fault(fault: Fault) -> None:
    """The default for faults met while reading: the records before it have been given, then this error comes. A note
    is passed over."""
    if fault.severity is Severity.NOTE:
        return
    raise CorruptData(fault.file, offset=fault.offset, found=fault.found, expected=fault.expected, hint=fault.code)


class Store(ABC):
    """A folder with one owner, open for reading. Opening and reading never change a byte of it.

    Implementations give the abstract methods; ``scan``, ``read`` and the derived columns (``store``, ``family``,
    ``stream``, ``address``, ``timestamp``, ``crc32``) are built on them here.
    """

    family: ClassVar[str]
    options_class: ClassVar[type]
    _last_picked: tuple[tuple[str, ...] | None, Level, tuple[Column, ...], tuple[Column, ...]] | None = None

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def path(self) -> str:
        """The folder."""
        return self.storage.root

    @classmethod
    @abstractmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open for reading. ``options`` fill ``options_class``, a frozen keyword-only dataclass (see
        :mod:`everlog.core.options`).
        """

    # What a family implements

    @classmethod
    @abstractmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder looks like this family's; reads names and a few bytes, and survives missing files."""

    @abstractmethod
    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The streams; ``include_all`` adds those that are marked as deleted."""

    def planned_streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """As ``streams``, for who plans a scan: first and last addresses, counts and details that cost much may be
        missing.
        """
        return self.streams(include_all=include_all)

    def stream_names(self, *, include_all: bool = False) -> list[str]:
        """The names of ``streams``, in the same order, without opening any stream if the family can."""
        return [info.name for info in self.planned_streams(include_all=include_all)]

    def open_ends(self, stream: str) -> tuple[int, ...]:
        """Addresses inside the stream before which records may still come, though others lie behind them: a writer is
        late. ``()`` where a stream grows at its end alone. What was no open end once is none later."""
        return ()

    def settled_end(self, stream: str) -> int | None:
        """The address to stop before for who reads once, in order, and goes on behind the last record: what lies
        behind may yet get records before it. ``None`` where a stream grows at its end alone. To be asked before the
        reading begins."""
        return min(self.open_ends(stream), default=None)

    @abstractmethod
    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """The columns that ``walk`` can give, ``timestamp_ns``, ``length`` and ``payload`` among them."""

    @abstractmethod
    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Batches of the requested columns, in address order. Damage goes to ``request.on_fault`` and the walk goes
        on behind it. Raises :class:`UnknownStream`.
        """

    @abstractmethod
    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Parts that together hold every record of the range once, each of about ``split_bytes``. A larger segment is
        cut where the family can tell where records begin without reading it.
        """

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """What is known of the times in ``splits`` of one stream, of ``splits()``, in order, without reading more than
        a few bytes of each.
        """

        return [SplitTimes()] * len(splits)

    @abstractmethod
    def parse_address(self, text: str) -> int:
        """Raises :class:`UsageError`."""

    @abstractmethod
    def format_address(self, address: int) -> str:
        """The text form."""

    @property
    @abstractmethod
    def address_columns(self) -> tuple[str, ...]:
        """The integer columns that make the address: one for decimal text, two for ``%08x:%08x``."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The family's state as plain values: descriptors, subscriptions, clients, ..."""

    @abstractmethod
    def verify(self, progress: Progress | None = None) -> Report:
        """Check everything; one report with every fault. Never raises for damage, never changes a byte."""

    def verify_parts(self, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[VerifyPart]:
        """Parts that together check all that ``verify`` checks, each of about ``split_bytes``. A family whose checks
        can't be parted has one.
        """
        return [VerifyPart(0)]

    def verify_part(self, part: VerifyPart) -> Report:
        """Check one of ``verify_parts``; :mod:`everlog.core.verification` makes one report of all."""
        return self.verify()

    def warnings(self) -> list[Fault] | None:
        """What somebody who runs the system should look at now, without reading everything: subscribers that do not
        move, a disk that fills. Not about damage (see ``verify``). ``None``: the family has no such checks.
        """
        return None

    def count_details(self, stream: str) -> dict[str, Any]:
        """Those of the stream's details that ``streams`` leaves unknown where they would cost much, found by reading as
        much as it takes.
        """
        return {}

    def plan_repair(self, progress: Progress | None = None) -> RepairPlan:
        """What could be done about the faults that ``verify`` finds; changes nothing until the plan is applied. Raises
        :class:`UsageError` for a family, or a place, where there is no repair."""
        raise UsageError(
            self.path,
            found=f"a store of family {self.family}",
            expected="one with a repair",
            hint="no repair for this family yet",
        )

    def close(self) -> None:  # noqa: B027 - most stores keep nothing open
        """Give back what is open."""

    # What all have

    def schema(self, stream: str | None = None, *, level: Level | str = Level.RECORD) -> tuple[Column, ...]:
        """All columns that ``scan`` can give. The same for every stream of a family."""
        own = self.family_columns(as_level(level))
        return (STORE, FAMILY, STREAM, *DERIVED, *own)

    def scan(
        self,
        stream: str,
        *,
        columns: list[str] | tuple[str, ...] | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
        level: Level | str = Level.RECORD,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Batch]:
        """Bounded batches of the asked columns (all for ``None``), records with ``start <= address < end``.

        Damage goes to ``on_fault`` and reading goes on behind it; the default raises :class:`CorruptData` there.
        """
        split = Split(stream, self._address(start), self._address(end), 0)
        return self.scan_split(
            split, columns=columns, level=level, max_rows=max_rows, max_bytes=max_bytes, on_fault=on_fault
        )

    def scan_split(
        self,
        split: Split,
        *,
        columns: list[str] | tuple[str, ...] | None = None,
        level: Level | str = Level.RECORD,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Batch]:
        """``scan`` over one of ``splits``."""
        level = as_level(level)
        if max_rows < 1 or max_bytes < 1:
            raise UsageError("batch bounds", found=f"{max_rows} rows, {max_bytes} bytes", expected="at least 1")
        wanted, own = self._picked(None if columns is None else tuple(columns), level)
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
            yield derive(batch, wanted, context, self.address_columns)

    def read(
        self,
        stream: str,
        start: str | int | None = None,
        end: str | int | None = None,
        *,
        level: Level | str = Level.RECORD,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Record]:
        """Records one by one, ``end`` exclusive; damage as in ``scan``."""
        level = as_level(level)
        names = ["address", *(c.name for c in self.family_columns(level))]
        return records_of(
            stream, names, self.scan(stream, columns=names, start=start, end=end, level=level, on_fault=on_fault)
        )

    def _picked(self, names: tuple[str, ...] | None, level: Level) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """Resolve names to columns: the ones asked for, and the family's own that they are made of.

        The last answer is kept, because reading many streams asks the same for each.
        """
        if self._last_picked is not None and self._last_picked[:2] == (names, level):
            return self._last_picked[2:]
        wanted = pick(self.schema(level=level), names)
        needed = {column.name for column in wanted}
        if "address" in needed:
            needed.update(self.address_columns)
        if "timestamp" in needed:
            needed.add("timestamp_ns")
        if "crc32" in needed:
            needed.add("payload")
        own = tuple(column for column in self.family_columns(level) if column.name in needed)
        self._last_picked = names, level, wanted, own
        return wanted, own

    def _address(self, value: str | int | None) -> int | None:
        if value is None or isinstance(value, int):
            return value
        return self.parse_address(value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


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
    """A level or its name. Raises :class:`UsageError`."""
    try:
        return Level(level)
    except ValueError:
        raise UsageError("level", found=repr(level), expected="record or frame") from None


TIMESTAMP_NS = Column("timestamp_ns", ColumnType.INT64, "nanoseconds since 1970, null where the family keeps no time")
LENGTH = Column("length", ColumnType.INT64, "payload bytes", nullable=False)
PAYLOAD = Column("payload", ColumnType.BINARY, "the message", nullable=False)
"""The three columns that every family's ``family_columns`` starts with, in this order."""
