"""Options that the stores of several Aeron families have."""

from __future__ import annotations

from typing import Literal, get_args

from everlog.core.family.record import StoreOption
from everlog.core.monitoring.levels import CheckOption, Levels, Status
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

HEARTBEAT_AGE_CRITICAL_S = 10.0
"""Aeron's own limit: clients and tools count a driver or an archive as gone after it."""

HEARTBEAT_AGE = CheckOption(
    field="heartbeat_age",
    flag="--heartbeat-age",
    default=Levels(5, HEARTBEAT_AGE_CRITICAL_S),
    help="Aeron: age of the last heartbeat, in seconds.",
)
STOPPED = CheckOption(
    field="stopped",
    flag="--stopped",
    default=Status.CRITICAL,
    help="Aeron: status of a driver or an archive that was stopped.",
)
ERRORS = CheckOption(
    field="errors",
    flag="--errors",
    default=Levels(0, None),
    help="Aeron: distinct errors seen within the window.",
)
ERROR_COUNT = CheckOption(
    field="error_count",
    flag="--error-count",
    default=Levels(),
    help="Aeron: counter of errors since the start.",
)
ERROR_WINDOW = CheckOption(
    field="error_window",
    flag="--error-window",
    default=3600.0,
    help="Aeron: seconds in which errors and losses count.",
)
OWNER_OPTIONS = (HEARTBEAT_AGE, STOPPED, ERRORS, ERROR_COUNT, ERROR_WINDOW)
"""The options of a driver and of an archive."""
