"""What a family implements so that records of other stores can be moved into its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, get_args

from everlog.core.options import check_choice

CompressionName = Literal["off", "none", "lz4", "null"]
ReservedValue = Literal["keep", "time", "none"]
KEEP: Final = "keep"
TIME: Final = "time"
NONE: Final = "none"
DEFAULT_TERM_LENGTH = 64 << 20
FIRST_STREAM_ID = 1001


@dataclass(frozen=True, slots=True)
class Assigned:
    """Where one stream of one store goes. ``name`` is the name of its note, and of its folder in targets that have one
    for each stream; ``token`` marks its part of a target that all streams share, ``number`` counts the streams."""

    store: str
    family: str
    stream: str
    name: str
    token: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """How new targets are made; :attr:`Migrating.options` names those that a family takes.

    ``segment_bytes`` is the size of segments. ``compression`` is ``None`` or ``lz4``. ``reserved_value`` of a frame:
    ``keep`` the one that it had, the ``time`` in nanoseconds since 1970, or ``none``; ``None`` stands for ``keep`` if
    there is one, else ``time``. ``term_length``: an eighth of it is the longest message."""

    segment_bytes: int | None = None
    compression: CompressionName | None = None
    reserved_value: ReservedValue | None = None
    term_length: int = DEFAULT_TERM_LENGTH
    channel: str = "aeron:ipc"
    first_stream_id: int = FIRST_STREAM_ID

    def __post_init__(self) -> None:
        if self.reserved_value is not None:
            check_choice("reserved value", self.reserved_value, get_args(ReservedValue))


class Row(NamedTuple):
    """A record to be moved."""

    payload: bytes
    timestamp_ns: int | None
    reserved_value: int | None


class Found(NamedTuple):
    """A record in the target, and the address at which the next one begins."""

    address: str
    length: int
    crc32: int
    end: int


class Target(Protocol):
    """The store that one stream is moved into."""

    @property
    def place(self) -> str:
        """The store's path and the stream in it, as messages show them."""

    def check(self, row: Row, where: str) -> None:
        """Raises :class:`UsageError` for a record that the target can't hold. ``where`` says which record that is."""

    def end(self) -> int:
        """The address at which the next record begins, or before which none will begin."""

    def append(self, rows: Sequence[Row]) -> None:
        """Append records; they are on disk on return. A crash leaves the first of them."""

    def after(self, end: int) -> Iterator[Found]:
        """Yield the records from an address on."""

    def close(self) -> None:
        """Release the store."""


class Migrating(ABC):
    """Opens the targets of a family, for moving streams into it. An object has no state and serves any number of
    targets. ``is_shared``: all streams go into one store, which one process owns; else each gets a store of its own.
    ``options``: the fields of :class:`TargetOptions` that matter."""

    is_shared: ClassVar[bool]
    options: ClassVar[frozenset[str]]

    @abstractmethod
    def check(self, options: TargetOptions) -> None:
        """Raises :class:`UsageError` for sizes that a target can't have."""

    @abstractmethod
    def place(self, folder: str, assigned: Assigned) -> str:
        """The path of the store that a stream goes to."""

    @abstractmethod
    def opened(self, folder: str, options: TargetOptions) -> AbstractContextManager[Callable[[Assigned], Target]]:
        """Return a context manager whose value opens the target of a stream. Targets stay open until its block ends;
        a store that does not exist is created. Raises what opening a store for writing raises."""
