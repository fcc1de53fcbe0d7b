"""Checks a log buffer's metadata."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.aeron.frames.constants import HEADER_LENGTH, MAX_FRAME_LENGTH, PAGE_SIZE, TYPE_DATA, align, is_power_of_two
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.folder.faults import fault
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.format.log_buffers import LOG_TYPES, METADATA_LENGTH, TERM_COUNT, LogBuffer
from everlog.core.report import Fault

MAX_PAGE_SIZE = 1 << 30
TAILS = ("tail_0", "tail_1", "tail_2")
MAX_TAIL = 0x7FFFFFFF
"""Largest tail. Publishers stop claiming long before: a tail exceeds its term by at most a message."""


def check_metadata(log: LogBuffer) -> Iterator[Fault]:
    """Find values that no driver writes, or that contradict each other, the file's name or its length."""
    yield from _check_fields(log)
    yield from _check_default_header(log)
    if any(log.raw_tails):
        yield from _check_tails(log)


def _check_fields(log: LogBuffer) -> Iterator[Fault]:
    metadata, page = log.metadata, log.metadata.page_size
    valid_page = is_power_of_two(page) and PAGE_SIZE <= page <= MAX_PAGE_SIZE
    checks = (
        ("page_size", valid_page, f"a power of two from {PAGE_SIZE} to {MAX_PAGE_SIZE}"),
        ("mtu_length", HEADER_LENGTH < metadata.mtu_length <= MAX_FRAME_LENGTH, f"33 to {MAX_FRAME_LENGTH}"),
        ("default_frame_header_length", metadata.default_frame_header_length == HEADER_LENGTH, str(HEADER_LENGTH)),
        ("active_term_count", metadata.active_term_count >= 0, "0 or more"),
        ("end_of_stream_position", metadata.end_of_stream_position >= 0, "0 or more"),
        ("is_connected", metadata.is_connected in (0, 1), "0 or 1"),
        ("log_type", metadata.log_type in LOG_TYPES, f"0 to {max(LOG_TYPES)}"),
    )
    for name, is_right, expected in checks:
        if not is_right:
            yield _field_fault("log-buffer-field", log, name, expected)
    if metadata.correlation_id != log.registration_id:
        yield _field_fault("log-buffer-name", log, "correlation_id", f"{log.registration_id}, the file's name")
    length = align(TERM_COUNT * log.term_length + METADATA_LENGTH, page) if valid_page else log.file_length
    if log.file_length != length:
        found, expected = f"{log.file_length} bytes", f"{length} bytes"
        yield fault("log-buffer-size", log.file_name, None, found, expected, stream=log.name)


def _check_default_header(log: LogBuffer) -> Iterator[Fault]:
    header = log.default_header
    initial = log.metadata.initial_term_id
    checks = (
        ("type", header.type == TYPE_DATA, str(TYPE_DATA)),
        ("version", header.version == 0, "0"),
        ("term_id", header.term_id == initial, f"{initial}, the initial term id"),
    )
    for name, is_right, expected in checks:
        if not is_right:
            field = DataHeader.field(name)
            offset = log.metadata_offset + LogMetaData.field("default_header").offset + field.offset
            found = f"{name} {header.values[field.index]}"
            lost = "messages published from now on"
            yield fault("log-buffer-header", log.file_name, offset, found, expected, lost, stream=log.name)


def _check_tails(log: LogBuffer) -> Iterator[Fault]:
    """Check that each raw tail's term belongs in its third; one before the initial term belongs to an unused third."""
    for index, name in enumerate(TAILS):
        tail = log.raw_tails[index]
        count, offset = log.term_count_of(tail >> 32), tail & 0xFFFFFFFF
        if count % TERM_COUNT == index and count >= -TERM_COUNT and offset <= MAX_TAIL and (count >= 0 or offset == 0):
            continue
        at = log.metadata_offset + LogMetaData.field(name).offset
        found = f"term id {tail >> 32}, {offset} bytes"
        expected = f"{log.metadata.initial_term_id + index} plus a multiple of {TERM_COUNT}"
        lost = "frames of that term, unless their headers identify it"
        yield fault("log-buffer-tail", log.file_name, at, found, expected, lost, stream=log.name)


def _field_fault(code: str, log: LogBuffer, name: str, expected: str) -> Fault:
    field = LogMetaData.field(name)
    found = f"{name} {log.metadata.values[field.index]}"
    offset = log.metadata_offset + field.offset
    return fault(code, log.file_name, offset, found, expected, "data that depends on it", stream=log.name)
