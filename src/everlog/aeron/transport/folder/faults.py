"""The faults of a media driver's folder: their codes, and what they mean."""

from __future__ import annotations

from everlog.core.report import Fault, Severity

CODES: dict[str, str] = {
    # cnc.dat
    "cnc-missing": "There is no cnc.dat: no client finds this driver, and no counter or error can be read",
    "cnc-not-ready": "The version of cnc.dat is 0: a driver is starting, or died while it did",
    "cnc-version": "cnc.dat is of a version that is not known",
    "cnc-field": "A field of cnc.dat's metadata has a value that no driver writes",
    "cnc-short": "cnc.dat ends before its last buffer does",
    "driver-gone": "The driver's heartbeat is older than the timeout: it does not run any more, or hangs",
    "counters-missing": "There is no counter, and each driver has its own: the metadata's lengths may be wrong",
    "counter-state": "A counter's state is none of the three that there are",
    "counter-label": "The length of a counter's label is out of bounds",
    "counter-key": "A counter's key is not what its type demands",
    "counter-hidden": "A counter behind one that was never used: no reader of Aeron's gets there",
    "error-entry": "The length of an entry in the error log is out of bounds",
    # loss-report.dat
    "loss-report-missing": "There is no loss report",
    "loss-entry": "An entry of the loss report has an impossible count or text",
    # Log buffers
    "log-buffer-name": "A file's name is none of a log buffer, or not the registration id in its metadata",
    "log-buffer-size": "A log buffer's file does not have the length that its terms make",
    "log-buffer-field": "A field of a log buffer's metadata has a value that no driver writes",
    "log-buffer-header": "The default header, which publishers copy, contradicts the log's metadata",
    "log-buffer-tail": "A raw tail names a term that does not belong in its third of the log buffer",
    "log-buffer-missing": "Counters tell of a publication or an image whose log buffer is not there",
    "log-buffer-unknown": "No counter tells of the log buffer: its owner has gone, or the counters are damaged",
    "log-buffer-changed": "The driver or a publisher changed what was being read",
    "position-beyond-tail": "A counter is at a position that the publication has not reached",
    "frame-uncommitted": "Claimed by a publisher, and not written, or not to its end",
    "frame-gap": "Frames of an image that did not arrive, or not yet",
    # Frames
    "frame-length": "A frame's length is impossible",
    "frame-type": "A frame's type is neither data nor padding",
    "frame-term-offset": "A frame's term offset is not its place",
    "frame-term-id": "A frame's term id is not that of its place",
    "frame-stream-id": "A frame's stream id is not its log buffer's",
    "padding-data": "A padding frame has bytes in it",
    "incomplete-message": "Fragments without their beginning or end",
    "message-too-long": "A message is longer than everlog takes",
    "unreadable": "The operating system refuses to read a file",
}
"""Code to meaning: what ``verify`` and reading can report. ``docs/verify.md`` lists them."""


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
    """A fault, or a note, with one of ``CODES``. What is wrong in a driver's folder is mended by starting the driver
    anew: it makes all of it anew."""
    assert code in CODES, code
    severity = Severity.NOTE if note else Severity.FAULT
    repair = "none needed" if note else "start the driver anew: it makes the folder anew"
    address = None if position is None else str(position)
    return Fault(code, file, offset, found, expected, loses, repair, severity, stream, address)
