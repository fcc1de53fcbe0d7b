"""Options that the stores of several Aeron families have."""

from __future__ import annotations

from everlog.core.family.record import StoreOption
from everlog.core.option_kinds import TEXT, choice

CHECKSUM = StoreOption(
    field="checksum",
    kind=choice("auto", "none", "crc32", "crc32c"),
    flag="--checksum",
    spark="checksum",
    help="Aeron: checksum recorded in the frames; auto tries.",
)
TIMESTAMP_FROM = StoreOption(
    field="timestamp_from",
    kind=TEXT,
    flag="--timestamp-from",
    spark="timestampFrom",
    help="Aeron: where a record's time is: reserved_value:ns, :us or :ms, or sbe:FIELD, with a unit or not.",
)
