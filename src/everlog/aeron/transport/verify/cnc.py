"""Checks ``cnc.dat``: its metadata, counters and error log."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.aeron.error_log import ENTRY_ALIGNMENT
from everlog.aeron.frames.constants import align, is_power_of_two
from everlog.aeron.layouts import ErrorEntry
from everlog.aeron.transport.folder.faults import fault
from everlog.aeron.transport.format.cnc_file import CHUNK_BYTES, CNC_NAME, CncFile
from everlog.aeron.transport.format.counters import (
    ALLOCATED,
    MAX_LABEL_LENGTH,
    METADATA_LENGTH,
    STATES,
    UNUSED,
    VALUE_LENGTH,
    KeyDamaged,
    decode_key,
    used_length,
)
from everlog.aeron.transport.format.layouts import BroadcastTrailer, CncMetaData, CounterMetaData, RingBufferTrailer
from everlog.core.report import Fault


def check_cnc(cnc: CncFile) -> Iterator[Fault]:
    """Run all checks that need no other file of the folder."""
    yield from check_header(cnc)
    if cnc.problem is not None:
        found, _, expected = cnc.problem.partition(" bytes of ")
        lost = "the content of the missing part"
        yield fault("cnc-short", CNC_NAME, cnc.size, f"{found} bytes", f"{expected} bytes", lost)
    yield from check_counters(cnc)
    yield from check_error_log(cnc)


def check_header(cnc: CncFile) -> Iterator[Fault]:
    """Find values that no driver writes, although the parts of the file can be located with them."""
    header, page = cnc.header, cnc.header.file_page_size
    ring = header.to_driver_buffer_length - RingBufferTrailer.size
    broadcast = header.to_clients_buffer_length - BroadcastTrailer.size
    metadata, values = header.counters_metadata_buffer_length, header.counters_values_buffer_length
    ratio = METADATA_LENGTH // VALUE_LENGTH
    checks = (
        ("to_driver_buffer_length", is_power_of_two(ring), f"a power of two plus {RingBufferTrailer.size}"),
        ("to_clients_buffer_length", is_power_of_two(broadcast), f"a power of two plus {BroadcastTrailer.size}"),
        ("counters_metadata_buffer_length", metadata == ratio * values, f"{ratio} times the values' length"),
        ("counters_values_buffer_length", values > 0 and values % VALUE_LENGTH == 0, f"a multiple of {VALUE_LENGTH}"),
        ("error_log_buffer_length", header.error_log_buffer_length > 0, "more than 0"),
        ("client_liveness_timeout_ns", header.client_liveness_timeout_ns > 0, "more than 0"),
        ("start_timestamp_ms", header.start_timestamp_ms > 0, "a time"),
        ("pid", header.pid > 0, "a process id"),
        ("file_page_size", page == 0 or is_power_of_two(page), "a power of two"),
    )
    for name, is_right, expected in checks:
        if not is_right:
            field = CncMetaData.field(name)
            found = f"{name} {header.values[field.index]}"
            yield fault("cnc-field", CNC_NAME, field.offset, found, expected, "data that depends on it")
    length = align(cnc.error_log.end, page) if is_power_of_two(page) else cnc.size
    if cnc.size > length:
        found, expected = f"parts up to offset {cnc.error_log.end}", f"parts that fill {cnc.size} bytes up to a page"
        yield fault("cnc-field", CNC_NAME, CncMetaData.field("to_driver_buffer_length").offset, found, expected)


def check_counters(cnc: CncFile) -> Iterator[Fault]:
    """Check the states, labels and keys of all counters, including those that no reader reaches."""
    hidden_from: int | None = None
    hidden = 0
    unused_seen = False
    read_end = 0
    region = cnc.counters_metadata
    if region.length >= METADATA_LENGTH and used_length(cnc.read(region, METADATA_LENGTH)) == 0:
        yield _no_counters(cnc)
    for chunk, data in _used_chunks(cnc):
        unused_seen = unused_seen or chunk > read_end
        read_end = chunk + len(data)
        for at in range(0, len(data) // METADATA_LENGTH * METADATA_LENGTH, METADATA_LENGTH):
            record = CounterMetaData.unpack_from(data, at)
            if record.state == UNUSED:
                unused_seen = True
            elif not unused_seen:
                yield from _check_counter(record, cnc.counters_metadata.start + chunk + at)
            elif record.state == ALLOCATED:
                hidden += 1
                hidden_from = cnc.counters_metadata.start + chunk + at if hidden_from is None else hidden_from
    if hidden_from is not None:
        found, expected = f"{hidden} allocated counters after one that was never used", "none"
        yield fault("counter-hidden", CNC_NAME, hidden_from, found, expected, "these counters")


def _used_chunks(cnc: CncFile) -> Iterator[tuple[int, bytes]]:
    """Whole metadata records with their offset in the region, without long runs of zeros, which may be holes."""
    region = cnc.counters_metadata
    end = region.length // METADATA_LENGTH * METADATA_LENGTH
    at = 0
    while at < end:
        at = max(at, cnc.used_from(region, at) // METADATA_LENGTH * METADATA_LENGTH)
        data = cnc.read(region, min(CHUNK_BYTES, end - at), at)
        if len(data) < METADATA_LENGTH:
            return
        yield at, data
        at += len(data)


def _no_counters(cnc: CncFile) -> Fault:
    found, expected = "the first counter was never used", "the driver's own counters"
    return fault("counters-missing", CNC_NAME, cnc.counters_metadata.start, found, expected, "all counters")


def _check_counter(record: CounterMetaData, offset: int) -> Iterator[Fault]:
    if record.state not in STATES:
        expected = ", ".join(map(str, sorted(STATES)))
        yield fault("counter-state", CNC_NAME, offset, f"state {record.state}", expected, "the counter")
        return
    if record.state != ALLOCATED:
        return
    if not 0 <= record.label_length <= MAX_LABEL_LENGTH:
        at = offset + CounterMetaData.field("label_length").offset
        found, expected = f"a label of {record.label_length} bytes", f"0 to {MAX_LABEL_LENGTH}"
        yield fault("counter-label", CNC_NAME, at, found, expected, "the counter's label")
    try:
        decode_key(record.type_id, record.key)
    except KeyDamaged as error:
        at = offset + CounterMetaData.field("key").offset
        yield fault("counter-key", CNC_NAME, at, str(error), "a text that fits", "the counter's key")


def check_error_log(cnc: CncFile) -> Iterator[Fault]:
    """Check the lengths of the error log's entries."""
    data, at = cnc.used_error_log(), 0
    while at + ErrorEntry.size <= len(data):
        length = ErrorEntry.unpack_from(data, at).length
        if length == 0:
            return
        if not ErrorEntry.size <= length <= len(data) - at:
            found, expected = f"an entry of {length} bytes", f"{ErrorEntry.size} to {len(data) - at}"
            yield fault("error-entry", CNC_NAME, cnc.error_log.start + at, found, expected, "the errors from there on")
            return
        at += align(length, ENTRY_ALIGNMENT)
