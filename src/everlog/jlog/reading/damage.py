"""Describes damaged stretches of a segment as faults."""

from __future__ import annotations

from everlog.core.report import Fault
from everlog.jlog.format.faults import fault
from everlog.jlog.format.framing import Framing
from everlog.jlog.reading.recovery import SegmentData, Verdict

_CUT = "cut the stretch out and delete the segment's index"
_CUT_END = "cut the segment at this offset and delete its index"
_HIDDEN_AFTER = "; the C library's readers stop there and see nothing after it until the segment is finished"


def describe_damage(data: SegmentData, log: int, marker: int, start: int, verdict: Verdict, framing: Framing) -> Fault:
    """The fault for the bytes from ``start`` to where messages continue by the verdict."""
    at_end = verdict.resume >= data.end
    lost = f"message {log:08x}:{marker:08x}"
    loses = lost if verdict.code != "damaged-bytes" else f"{lost}, and any others in the stretch"
    if verdict.resume - start < framing.header_bytes and not at_end:
        loses = f"the end of the message before {log:08x}:{marker:08x}; its header has a wrong length"
    if verdict.code == "merged-records":
        loses = f"{lost}; the C library returns it merged with later ones, as a message that was never written"
    elif verdict.code == "zero-bytes":
        loses = "whatever was to be written there" + ("" if at_end else _HIDDEN_AFTER)
    elif not at_end:
        loses += _HIDDEN_AFTER
    found, expected = _found_and_expected(data, start, verdict, framing)
    return fault(
        verdict.code,
        data.file.name,
        start,
        found,
        expected,
        loses=loses,
        repair=_CUT_END if at_end else _CUT,
        address=f"{log:08x}:{marker:08x}",
    )


def _found_and_expected(data: SegmentData, start: int, verdict: Verdict, framing: Framing) -> tuple[str, str]:
    count = verdict.resume - start
    header = verdict.header
    if verdict.code == "torn-header":
        return f"{count} bytes of a header", f"{framing.header_bytes} bytes and the payload"
    if verdict.code in ("torn-record", "merged-records") and header is not None:
        ending = "the data ends" if verdict.resume >= data.end else "another message begins"
        return (
            f"{ending} after {count} bytes, at {verdict.resume}",
            f"{header.end - start} bytes, as its header says (payload {header.length})",
        )
    if header is not None:
        return f"a message of {header.end - start} bytes", "the length given by the index"
    head = data.read(start, 4)
    if verdict.code == "zero-bytes":
        return f"{count} zero bytes", f"a message header with magic {framing.magic:#010x}"
    if head == framing.magic_bytes:
        return f"{count} bytes with an implausible header {data.read(start, framing.header_bytes).hex()}", "a message"
    return f"{count} bytes beginning {head.hex()}", f"a message header, {framing.magic_bytes.hex()}"
