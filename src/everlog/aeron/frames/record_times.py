"""Times of records. Aeron's frames carry none, but publishers put one into the reserved value or the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.frames.columns import FLAGS, TIMESTAMP_UNITS
from everlog.aeron.frames.constants import FLAG_BEGIN
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData
from everlog.core.store import PAYLOAD, TIMESTAMP_NS
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.sbe import Schema
    from everlog.sbe.times import SbeTimes

SBE = "sbe:"


def check_source(source: str | None, schema: str | Schema | None) -> None:
    """Raises :class:`UsageError` if ``timestamp_from`` is unknown, or needs a schema and none is given."""
    if source is None or source in TIMESTAMP_UNITS:
        return
    if not source.startswith(SBE):
        expected = f"one of {', '.join(TIMESTAMP_UNITS)}, sbe:FIELD"
        raise UsageError("timestamp_from", found=repr(source), expected=expected)
    from everlog.sbe.times import split_source  # imported only if needed

    split_source(source)
    if schema is None:
        message = f"timestamp_from {source!r} needs an SBE schema"
        raise UsageError("timestamp_from", found=f"{source!r} without a schema", expected="a schema", message=message)


class RecordTimes:
    """Fills ``timestamp_ns``. ``factor`` is the number of nanoseconds in a unit of the reserved value, 0 if that is no
    time. Raises :class:`UsageError` if the schema does not have the field."""

    def __init__(self, source: str | None, schema: str | Schema | None) -> None:
        self.factor = TIMESTAMP_UNITS.get(source or "", 0)
        self._times: SbeTimes | None = None
        if source is not None and schema is not None and source.startswith(SBE):
            from everlog.sbe.times import SbeTimes

            self._times = SbeTimes(schema, source)

    def needed(self, wanted: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns that a walk must produce for the wanted ones."""
        if self._times is None or TIMESTAMP_NS not in wanted:
            return wanted
        return (*wanted, *(column for column in (PAYLOAD, FLAGS) if column not in wanted))

    def fill(self, batch: Batch, wanted: tuple[Column, ...]) -> Batch:
        """Add times to a batch of the needed columns, and keep only the wanted columns."""
        if self._times is None or TIMESTAMP_NS not in wanted:
            return batch
        times = self._times.of(batch)
        _forget_later_fragments(times, batch.data[FLAGS.name].values)
        data = {c.name: times if c.name == TIMESTAMP_NS.name else batch.data[c.name] for c in wanted}
        return Batch(wanted, batch.row_count, data)


def _forget_later_fragments(times: ColumnData, flags: memoryview) -> None:
    """Set the times of later fragments to null: no message starts there, whatever the bytes look like."""
    later = [i for i, flag in enumerate(flags.tolist()) if not flag & FLAG_BEGIN]
    if not later:
        return
    rows = len(flags)
    bits = bytearray(b"\xff" * ((rows + 7) // 8)) if times.validity is None else bytearray(times.validity)
    for i in later:
        bits[i >> 3] &= ~(1 << (i & 7))
    times.validity = memoryview(bytes(bits))
    times.null_count = sum(not bits[i >> 3] >> (i & 7) & 1 for i in range(rows))
