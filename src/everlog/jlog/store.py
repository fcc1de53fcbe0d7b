"""A JLog journal as a store. It has one stream, ``journal``; an address is ``segment:marker``, each as eight hex
digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage
from everlog.core.options import fill
from everlog.core.report import Fault, Progress, Report
from everlog.core.splits import Split, SplitTimes
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, Store, StreamInfo
from everlog.errors import EverlogError, UnknownStream
from everlog.jlog.format.addresses import MARKER_BITS, Address
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.framing import KNOWN, LEGACY
from everlog.jlog.format.layouts import JlogCompressedHeader, JlogLegacyMetastore, JlogMetastore
from everlog.jlog.format.names import (
    METASTORE,
    PRE_COMMIT,
    parse_checkpoint_name,
    parse_index_name,
    parse_segment_name,
)
from everlog.jlog.monitoring.health import DEFAULT_LIMITS, HealthLimits, check_health
from everlog.jlog.monitoring.observation import Observation, observe
from everlog.jlog.monitoring.summary import count_lags, describe, summarize
from everlog.jlog.options import JlogOptions
from everlog.jlog.reading.growth import growing_segments
from everlog.jlog.reading.journal import COLUMNS, Journal, Walk
from everlog.jlog.reading.journal_end import journal_end
from everlog.jlog.reading.segments import list_segments
from everlog.jlog.reading.splitting import SplitContext, plan_splits, split_times
from everlog.jlog.verify.journal import verify_journal

if TYPE_CHECKING:
    from everlog.core.plan.plan import RepairPlan


class JlogStore(Store):
    """A journal, open for reading. Every call reads the folder again and so sees added and removed segments."""

    family: ClassVar[str] = "jlog"
    options_class: ClassVar[type] = JlogOptions

    def __init__(self, storage: Storage, options: JlogOptions) -> None:
        super().__init__(storage)
        self.options = options

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open for reading. Raises :class:`UnsupportedVersion` for a journal written on a big-endian machine, and
        :class:`UsageError`."""
        filled = fill(JlogOptions, options)
        Journal.read(storage)
        return cls(storage, filled)

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """True for a metastore of the right size, a file that starts like a segment, or a combination of names that
        only a journal has."""
        names = set(storage.names())
        segments = sorted(name for name in names if parse_segment_name(name) is not None)
        others = any(parse_checkpoint_name(name) is not None or parse_index_name(name) is not None for name in names)
        if METASTORE in names:
            if segments or others or PRE_COMMIT in names:
                return True
            try:
                return storage.size(METASTORE) in (JlogMetastore.size, JlogLegacyMetastore.size)
            except EverlogError:
                return False
        if segments and (others or PRE_COMMIT in names):
            return True
        return any(_begins_with_message(storage, name) for name in segments[:4])

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The journal. ``last`` and ``record_count`` come from indexes; a small amount of unindexed data is walked."""
        return [summarize(Journal.read(self.storage), pre_commit=self.options.pre_commit)]

    def planned_streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The journal, from names and sizes of segments alone."""
        size = sum(segment.byte_count for segment in Journal.read(self.storage).segments)
        return [StreamInfo(STREAM, self.family, None, None, None, None, size)]

    def open_ends(self, stream: str) -> tuple[int, ...]:
        """Ends of segments that still grow although a later segment exists."""
        self._check(stream)
        segments = list_segments(self.storage.entries())
        return tuple((segment.log + 1) << MARKER_BITS for segment in growing_segments(self.storage, segments))

    def walked_end(self, stream: str) -> int | None:
        """See :meth:`Store.walked_end`. Of a journal without messages, where its next segment begins."""
        return journal_end(self)

    def settled_end(self, stream: str) -> int | None:
        """The first open end, else the end of the last segment, which may still grow."""
        self._check(stream)
        segments = list_segments(self.storage.entries())
        if not segments:
            return None
        first = next(iter(growing_segments(self.storage, segments)), segments[-1])
        return (first.log + 1) << MARKER_BITS

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """``timestamp_ns``, ``length``, ``payload``, ``log``, ``marker``, ``offset``. Messages are not fragmented, so
        both levels are the same."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """See :meth:`Store.walk`. Without the payload, compressed messages are not decoded, so undecodable ones are
        included."""
        self._check(stream)
        previous: int | None = None
        piece = None
        if request.split is not None:
            context: SplitContext = request.split.context
            previous, logs, piece = context.previous, list(context.logs), context.piece
            journal = Journal.read_part(self.storage, logs, context.following)
        else:
            journal = Journal.read(self.storage)
            logs = [segment.log for segment in journal.segments]
        first = (request.start or 0) >> MARKER_BITS
        kept = [log for log in logs if log >= first]
        if request.end is not None:
            kept = [log for log in kept if log << MARKER_BITS < request.end]
        if len(kept) < len(logs) and kept and kept[0] != logs[0]:
            previous = max(log for log in logs if log < kept[0])
        return Walk(journal, request, pre_commit=self.options.pre_commit).batches(kept, previous, piece)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Runs of segments of about ``split_bytes`` each, and pieces of larger segments that have an index."""
        self._check(stream)
        return list(plan_splits(Journal.read(self.storage), start, end, split_bytes))

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """Times from the header of each split's first message."""
        return split_times(Journal.read(self.storage), splits)

    def parse_address(self, text: str) -> int:
        """Parse ``00000005:00000003``; leading zeros are optional. Raises :class:`UsageError`."""
        return Address.parse(text)

    def format_address(self, address: int) -> str:
        """Format as ``00000005:00000003``."""
        return str(Address(address))

    @property
    def address_columns(self) -> tuple[str, ...]:
        """Segment and marker."""
        return ("log", "marker")

    def info(self) -> dict[str, Any]:
        """Metastore, segments with the state of their indexes, subscribers, and pre-commit buffer."""
        return describe(Journal.read(self.storage))

    def verify(self, progress: Progress | None = None) -> Report:
        """Verify folder, metastore, segments, indexes, checkpoints and pre-commit buffer."""
        return verify_journal(Journal.read(self.storage), progress)

    def observe(self) -> Observation:
        """The journal's current state, input of :func:`check_health`."""
        return observe(self.storage)

    def warnings(self, *, before: Observation | None = None, limits: HealthLimits = DEFAULT_LIMITS) -> list[Fault]:
        """Warnings for an operator: stalled subscribers, growth, unflushed messages. ``before`` is an earlier
        observation."""
        return check_health(self.observe(), before, limits)

    def count_details(self, stream: str) -> dict[str, Any]:
        """Subscribers and their lag in messages, bytes and seconds, counted exactly."""
        self._check(stream)
        return {"subscribers": count_lags(Journal.read(self.storage))}

    def plan_repair(self, progress: Progress | None = None) -> RepairPlan:
        from everlog.jlog.repair.planning import plan_repair

        return plan_repair(self.storage, progress=progress)

    def _check(self, stream: str) -> None:
        if stream != STREAM:
            raise UnknownStream(self.path, found=f"no stream {stream!r}", hint=f"a journal's only stream is {STREAM!r}")


def _begins_with_message(storage: Storage, name: str) -> bool:
    try:
        with storage.open(name) as file:
            head = file.read_at(0, JlogCompressedHeader.size)
    except EverlogError:
        return False
    return any(framing is not LEGACY and framing.parse(head, 0, 0) is not None for framing in KNOWN)
