"""The fixed properties of a log buffer, read from its metadata and checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    is_power_of_two,
)
from everlog.aeron.frames.framing_inputs import MAX_MESSAGE_LENGTH, framed_length
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.errors import CorruptData
from everlog.kernel.memory import Memory

TERM_COUNT: Final = 3


class Log(Protocol):
    """A mapped log: three terms of one length, and its metadata."""

    @property
    def terms(self) -> Sequence[Memory]:
        """Three terms of equal length."""

    @property
    def metadata(self) -> Memory:
        """The metadata section, laid out as :class:`LogMetaData`."""


@dataclass(frozen=True, slots=True)
class LogShape:
    """The properties of a log that never change. ``header`` is the default frame header that publishers copy."""

    term_length: int
    mtu_length: int
    initial_term_id: int
    session_id: int
    stream_id: int
    header: bytes

    @classmethod
    def of(cls, log: Log) -> LogShape:
        """Read the metadata. Raises :class:`CorruptData` if it contradicts the terms or has values that no driver
        writes."""
        lengths = {term.length for term in log.terms}
        if len(log.terms) != TERM_COUNT or len(lengths) != 1 or log.metadata.length < LogMetaData.size:
            raise CorruptData(
                "log buffer",
                found=f"{len(log.terms)} terms of {sorted(lengths)} bytes",
                expected="3 terms of equal length and their metadata",
            )
        (length,) = lengths
        metadata = LogMetaData.unpack_from(log.metadata.read(0, LogMetaData.size))
        if metadata.term_length != length or not MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH:
            raise _corrupt("term_length", metadata.term_length, f"{length}, the actual length")
        if not is_power_of_two(length):
            raise _corrupt("term_length", length, "a power of two")
        mtu = metadata.mtu_length
        if not HEADER_LENGTH < mtu <= min(MAX_FRAME_LENGTH, length) or mtu % FRAME_ALIGNMENT:
            raise _corrupt("mtu_length", mtu, f"a multiple of 32, 64 to {MAX_FRAME_LENGTH}")
        header = metadata.default_header[:HEADER_LENGTH]
        frame = DataHeader.unpack_from(header)
        return cls(length, mtu, metadata.initial_term_id, frame.session_id, frame.stream_id, header)

    @property
    def position_bits_to_shift(self) -> int:
        """Shifting a position right by this number of bits gives its term count."""
        return self.term_length.bit_length() - 1

    @property
    def max_payload_length(self) -> int:
        """Payload bytes that fit in one frame."""
        return self.mtu_length - HEADER_LENGTH

    @property
    def max_message_length(self) -> int:
        """Bytes of the longest message: an eighth of a term, at most 16 MiB."""
        return min(self.term_length >> 3, MAX_MESSAGE_LENGTH)

    @property
    def max_framed_length(self) -> int:
        """Bytes that the longest message takes in the log, with its frame headers and padding."""
        return framed_length(self.max_message_length, self.max_payload_length)

    @property
    def max_possible_position(self) -> int:
        """The position at which the term ids are used up."""
        return self.term_length << 31


def _corrupt(name: str, found: int, expected: str) -> CorruptData:
    return CorruptData("log buffer metadata", found=f"{name} {found}", expected=expected)
