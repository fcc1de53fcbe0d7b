"""The options of a writer. Their names and defaults are the original's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from everlog.core.files.durability import Durability
from everlog.core.options import check_choice, check_type
from everlog.errors import UsageError
from everlog.kernel.crc32 import IEEE, Crc32
from everlog.nats_streaming.format.limits import Limits, parse_count, parse_duration, parse_size
from everlog.nats_streaming.writing.slice_limits import DEFAULT_SLICE_BYTES, SliceLimits

DurabilityName = Literal["written", "synced"]
"""The values of :class:`everlog.core.files.durability.Durability` that this family has."""
DEFAULT_CLUSTER_ID = "test-cluster"
DEFAULT_MAX_MSGS = 1_000_000
DEFAULT_MAX_BYTES = 1_000_000 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options for writing a store. Numbers may also be text, as on the server's command line.

    ``durability`` is ``"written"`` (an appended message survives the death of the process) or ``"synced"`` (it survives
    a power cut). ``cluster_id`` goes into a new store, ``None`` meaning ``test-cluster``; an existing store must have
    this ID, unless it is ``None``. ``crc_poly`` is the checksums' polynomial in reversed form.

    ``max_msgs``, ``max_bytes`` (``"64MB"``) and ``max_age`` (seconds, or ``"24h"``) limit each channel: the oldest
    messages are dropped. 0 means no limit; the defaults are the server's: 1,000,000 messages, 1,024,000,000 bytes, no
    age. Bytes count each message's payload in the file plus 40. ``slice_max_msgs``, ``slice_max_bytes`` and
    ``slice_max_age`` limit each slice; if all three are 0, a slice takes a quarter of what the channel may hold.
    """

    durability: Durability | DurabilityName = "written"
    cluster_id: str | None = None
    crc_poly: int = IEEE
    max_msgs: int | str = DEFAULT_MAX_MSGS
    max_bytes: int | str = DEFAULT_MAX_BYTES
    max_age: float | str = 0
    slice_max_msgs: int | str = 0
    slice_max_bytes: int | str = DEFAULT_SLICE_BYTES
    slice_max_age: float | str = 0

    def __post_init__(self) -> None:
        check_choice("durability", self.durability, get_args(DurabilityName))
        check_type("crc_poly", self.crc_poly, int, "an integer")
        if self.cluster_id is not None:
            check_type("cluster_id", self.cluster_id, str, "text")
            if not self.cluster_id:
                raise UsageError("cluster_id", found="''", expected="a name")
        self.limits()
        self.slice_limits()
        self.new_crc()

    @property
    def is_synced(self) -> bool:
        """Whether each append waits for the disk."""
        return self.durability == Durability.SYNCED

    def limits(self) -> Limits:
        """The channel's limits. Raises :class:`UsageError` if one is invalid."""
        return Limits(
            parse_count("max_msgs", self.max_msgs),
            parse_size("max_bytes", self.max_bytes),
            parse_duration("max_age", self.max_age),
        )

    def slice_limits(self) -> SliceLimits:
        """The limits of a slice, derived from the channel's if none is given."""
        given = SliceLimits(
            parse_count("slice_max_msgs", self.slice_max_msgs),
            parse_size("slice_max_bytes", self.slice_max_bytes),
            parse_duration("slice_max_age", self.slice_max_age),
        )
        return given if given else SliceLimits.derived(self.limits())

    def new_crc(self) -> Crc32:
        """A new CRC-32 with the polynomial ``crc_poly``."""
        return Crc32(self.crc_poly)
