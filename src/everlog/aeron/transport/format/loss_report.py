"""Reads ``loss-report.dat``: how much each image of a driver lost, and when. Source: LossReport, LossReportReader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everlog.aeron.frames.constants import align
from everlog.aeron.transport.format.layouts import LossEntry
from everlog.core.files.storage import Storage
from everlog.layout import Readable

LOSS_REPORT_NAME = "loss-report.dat"
ENTRY_ALIGNMENT = 64
LENGTH_BYTES = 4
CHUNK_BYTES = 64 << 10
MAX_REPORT_BYTES = 256 << 20
"""Bytes that are read at most; a driver's default is 1 MiB."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss on one image. Times are milliseconds since 1970."""

    offset: int
    observation_count: int
    total_bytes_lost: int
    first_observation: int
    last_observation: int
    session_id: int
    stream_id: int
    channel: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "observation_count": self.observation_count,
            "total_bytes_lost": self.total_bytes_lost,
            "first_observation": self.first_observation,
            "last_observation": self.last_observation,
            "session_id": self.session_id,
            "stream_id": self.stream_id,
            "channel": self.channel,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class LossProblem:
    """The offset at which the report becomes unreadable, and why."""

    offset: int
    found: str
    expected: str


def read_losses(data: Readable) -> tuple[list[Loss], LossProblem | None]:
    """Read the entries up to the first that is empty or damaged. Returns them, and the damage or ``None``."""
    losses: list[Loss] = []
    at = 0
    while at + LossEntry.size <= len(data):
        count, lost, first, last, session_id, stream_id = LossEntry.struct.unpack_from(data, at)
        if count == 0:
            return losses, None
        if count < 0:
            return losses, LossProblem(at, f"observation count {count}", "0 or more")
        channel = _text(data, at + LossEntry.size)
        if isinstance(channel, LossProblem):
            return losses, channel
        text, after = channel
        source = _text(data, align(after - at, LENGTH_BYTES) + at)
        if isinstance(source, LossProblem):
            return losses, source
        losses.append(Loss(at, count, lost, first, last, session_id, stream_id, text, source[0]))
        at += align(source[1] - at, ENTRY_ALIGNMENT)
    rest = bytes(data[at:])
    if any(rest):
        return losses, LossProblem(at, f"{len(rest)} bytes", f"an entry of more than {LossEntry.size}")
    return losses, None


def _text(data: Readable, at: int) -> tuple[str, int] | LossProblem:
    """The text whose length is at ``at``, and the offset after it."""
    start = at + LENGTH_BYTES
    length = int.from_bytes(data[at:start], "little", signed=True)
    if start > len(data) or not 0 <= length <= len(data) - start:
        room = max(len(data) - start, 0)
        return LossProblem(at, f"a text of {length} bytes" if start <= len(data) else "no text", f"0 to {room} bytes")
    return str(data[start : start + length], "ascii", "replace"), start + length


def load_losses(storage: Storage) -> tuple[list[Loss], LossProblem | None] | None:
    """Read the loss report of a driver's folder, like :func:`read_losses`. Returns ``None`` if there is no report.
    Raises :class:`StoreUnavailable` if it can't be read."""
    if not storage.exists(LOSS_REPORT_NAME):
        return None
    pieces: list[bytes] = []
    with storage.open(LOSS_REPORT_NAME) as file:
        for at in range(0, MAX_REPORT_BYTES, CHUNK_BYTES):
            piece = file.read_at(at, CHUNK_BYTES)
            pieces.append(piece)
            if len(piece) < CHUNK_BYTES or not any(piece):
                break
    return read_losses(b"".join(pieces))
