"""Times of records: Aeron's frames carry none, but publishers put one into the reserved value or into the message."""

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
    """Raise :class:`UsageError` for a ``timestamp_from`` that is none, or that needs a schema where there is none."""
    if source is None or source in TIMESTAMP_UNITS:
        return
    if not source.startswith(SBE):
        expected = f"{', '.join(TIMESTAMP_UNITS)} or sbe:FIELD"
        raise UsageError("timestamp_from", found=repr(source), expected=expected)
    from everlog.sbe.times import split_source  # only those who ask for it pay for the import

    split_source(source)
    if schema is None:
        raise UsageError("timestamp_from", found=f"{source!r} without a schema", expected="an SBE schema with it")


class RecordTimes:
    """Fills ``timestamp_ns``. ``factor`` is how many nanoseconds a unit of the reserved value has, 0 where that is no
    time. Raises :class:`UsageError` for a field that the schema does not have."""

    def __init__(self, source: str | None, schema: str | Schema | None) -> None:
        self.factor = TIMESTAMP_UNITS.get(source or "", 0)
        self._times: SbeTimes | None = None
        if source is not None and schema is not None and source.startswith(SBE):
            from everlog.sbe.times import SbeTimes

            self._times = SbeTimes(schema, source)

    def needed(self, wanted: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns that a walk must give so that the wanted ones can be made."""
        if self._times is None or TIMESTAMP_NS not in wanted:
            return wanted
        return (*wanted, *(column for column in (PAYLOAD, FLAGS) if column not in wanted))

    def fill(self, batch: Batch, wanted: tuple[Column, ...]) -> Batch:
        """The batch of the needed columns with its times, and with the wanted ones only."""
        if self._times is None or TIMESTAMP_NS not in wanted:
            return batch
        times = self._times.of(batch)
        _forget_later_fragments(times, batch.data[FLAGS.name].values)
        data = {c.name: times if c.name == TIMESTAMP_NS.name else batch.data[c.name] for c in wanted}
        return Batch(wanted, batch.row_count, data)


def _forget_later_fragments(times: ColumnData, flags: memoryview) -> None:
    """A fragment behind the first has no message at its start, whatever its bytes look like."""
    later = [i for i, flag in enumerate(flags.tolist()) if not flag & FLAG_BEGIN]
    if not later:
        return
    rows = len(flags)
    bits = bytearray(b"\xff" * ((rows + 7) // 8)) if times.validity is None else bytearray(times.validity)
    for i in later:
        bits[i >> 3] &= ~(1 << (i & 7))
    times.validity = memoryview(bytes(bits))
    times.null_count = sum(not bits[i >> 3] >> (i & 7) & 1 for i in range(rows))
