"""The faults of a media driver's folder: codes and their meaning."""

from __future__ import annotations

from everlog.core.report import Fault, Severity

CODES: dict[str, str] = {
    # cnc.dat
    "cnc-missing": "cnc.dat is missing: clients can't find this driver, and its counters and errors can't be read",
    "cnc-not-ready": "The version of cnc.dat is 0: a driver is starting, or died while starting",
    "cnc-version": "cnc.dat has an unknown version",
    "cnc-field": "A field of cnc.dat's metadata has a value that no driver writes",
    "cnc-short": "cnc.dat ends before its last buffer does",
    "driver-gone": "The driver's heartbeat is older than the timeout: it no longer runs, or hangs",
    "counters-missing": "No counter is in use, although every driver has its own: the metadata's lengths may be wrong",
    "counter-state": "A counter's state is not unused, allocated or reclaimed",
    "counter-label": "The length of a counter's label is out of bounds",
    "counter-key": "A counter's key does not fit its type",
    "counter-hidden": "A counter follows one that was never used: Aeron's readers never reach it",
    "error-entry": "The length of an entry in the error log is out of bounds",
    # loss-report.dat
    "loss-report-missing": "The loss report is missing",
    "loss-entry": "An entry of the loss report has an impossible count or text",
    # Log buffers
    "log-buffer-name": "A file's name is not that of a log buffer, or not the registration id in its metadata",
    "log-buffer-size": "A log buffer's file does not have the length of its terms and metadata",
    "log-buffer-field": "A field of a log buffer's metadata has a value that no driver writes",
    "log-buffer-header": "The default header, which publishers copy, contradicts the log's metadata",
    "log-buffer-tail": "A raw tail names a term that does not belong in its third of the log buffer",
    "log-buffer-missing": "A publication or image has counters, but its log buffer is missing",
    "log-buffer-unknown": "A log buffer has no counter: its owner has gone, or the counters are damaged",
    "log-buffer-changed": "The driver or a publisher changed the log buffer during the read",
    "position-beyond-tail": "A counter's position is beyond the publication's tail",
    "frame-uncommitted": "A frame was claimed by a publisher, but not written, or only in part",
    "frame-gap": "Frames of an image have not arrived, or not yet",
    # Frames
    "frame-length": "A frame's length is impossible",
    "frame-type": "A frame's type is neither data nor padding",
    "frame-term-offset": "A frame's term offset is not its place",
    "frame-term-id": "A frame's term id is not that of its place",
    "frame-stream-id": "A frame's stream id is not its log buffer's",
    "padding-data": "A padding frame has bytes other than zero",
    "incomplete-message": "Fragments without their beginning or end",
    "message-too-long": "A message is longer than everlog takes",
    "unreadable": "The operating system refuses to read a file",
}
"""Meaning by code of the faults that ``verify`` and reading can report. ``docs/verify.md`` lists them."""


def fault(
    code: str,
    file: str,
    offset: int | None,
    found: str,
    expected: str,
    loses: str = "nothing",
    *,
    note: bool = False,
    stream: str | None = None,
    position: int | None = None,
) -> Fault:
    """Make a fault, or a note, with one of ``CODES``. Restarting the driver repairs every fault, as it recreates the
    folder."""
    assert code in CODES, code
    severity = Severity.NOTE if note else Severity.FAULT
    repair = "none needed" if note else "restart the driver: it recreates the folder"
    address = None if position is None else str(position)
    return Fault(code, file, offset, found, expected, loses, repair, severity, stream, address)
