"""Options that the stores of several Aeron families have."""

from __future__ import annotations

from typing import Literal, get_args

from everlog.core.family.record import StoreOption
from everlog.core.option_kinds import TEXT, choice

Checksum = Literal["none", "crc32", "crc32c"]
"""What an archive records in frames and catalog entries."""
ReadChecksum = Literal["auto", "none", "crc32", "crc32c"]
"""What a reader expects in the frames; ``auto`` tries a few frames of each recording."""
CHECKSUM_KINDS: tuple[Checksum, ...] = get_args(Checksum)
READ_CHECKSUMS: tuple[ReadChecksum, ...] = get_args(ReadChecksum)

CHECKSUM = StoreOption(
    field="checksum",
    kind=choice(*READ_CHECKSUMS),
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
