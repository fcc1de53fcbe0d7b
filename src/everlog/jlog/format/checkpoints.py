"""Reads subscribers and their checkpoints: files ``cp.<hex of the name>`` of eight bytes, the segment and number of the
last message consumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everlog.core.files.storage import Storage
from everlog.errors import EverlogError
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.names import TRANSIENT_PREFIX, parse_checkpoint_name, printable


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A subscriber's checkpoint. ``log`` and ``marker`` are ``None`` if the file doesn't have 8 bytes; ``error`` is set
    if it can't be read. ``subscriber`` keeps bytes that are not UTF-8 as surrogates."""

    subscriber: str
    file: str
    byte_count: int
    log: int | None = None
    marker: int | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """The subscriber's name as printable text."""
        return printable(self.subscriber)

    @property
    def is_transient(self) -> bool:
        """Whether the name is that of a session subscriber."""
        return self.subscriber.startswith(TRANSIENT_PREFIX)

    def to_dict(self) -> dict[str, object]:
        """Plain values for ``info``."""
        return {
            "name": self.name,
            "file": self.file,
            "log": self.log,
            "marker": self.marker,
            "checkpoint": None if self.log is None else f"{self.log:08x}:{self.marker:08x}",
            "transient": self.is_transient,
        }


def read_checkpoints(storage: Storage, names: Iterable[str]) -> list[Checkpoint]:
    """The checkpoints among a folder's names, by subscriber. Skips names that are not the hex text of a name."""
    found = []
    for file in names:
        subscriber = parse_checkpoint_name(file)
        if subscriber is not None:
            found.append(_read(storage, subscriber, file))
    return sorted(found, key=lambda checkpoint: checkpoint.subscriber)


def _read(storage: Storage, subscriber: str, name: str) -> Checkpoint:
    try:
        with storage.open(name) as file:
            size = file.size()
            data = file.read_at(0, JlogCheckpoint.size)
    except EverlogError as error:
        return Checkpoint(subscriber, name, 0, error=str(error))
    if size != JlogCheckpoint.size or len(data) != size:
        return Checkpoint(subscriber, name, size)
    values = JlogCheckpoint.unpack_from(data)
    return Checkpoint(subscriber, name, size, values.log, values.marker)
