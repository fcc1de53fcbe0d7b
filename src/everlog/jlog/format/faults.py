"""The fault codes of a journal, and constructors for its faults and notes."""

from __future__ import annotations

from everlog.core.report import Fault, Severity

STREAM = "journal"
"""Name of a journal's only stream."""

CODES: dict[str, str] = {
    # The data of a segment
    "torn-record": "A message was not written completely. Others may follow it.",
    "merged-records": "A message was not written completely, and by its length it ends where a later one "
    "does: the C library returns one message made of two.",
    "torn-header": "The segment ends inside a message header.",
    "damaged-bytes": "Bytes that are not a message, between messages or after the last one.",
    "zero-bytes": "Zero bytes instead of a message, as file systems leave them after a power loss.",
    "undecodable-payload": "A compressed payload that does not decode to the length its header says.",
    "unknown-compression": "The header magic names an unknown compression provider.",
    "null-provider-empty-message": "The C library's null provider stored an empty message as 16,384 zero bytes.",
    "framing-changes": "The header magic changes inside a segment: a newer version continued an old journal.",
    "magic-differs": "A segment's messages have a header magic other than the metastore's.",
    "segment-cut-while-read": "The segment became shorter while it was read.",
    "segment-gone-while-read": "The segment was deleted before it was read, as readers do once all "
    "subscribers have consumed it.",
    # The folder
    "missing-segments": "Segments between the first and the last one are missing.",
    "empty-closed-segment": "A finished segment is empty.",
    "segment-short": "A finished segment is shorter than the limit at which it should have been finished.",
    "unknown-file": "A file or folder that is not part of a journal.",
    "unreadable-file": "The operating system refuses to read a file.",
    # metastore
    "metastore-missing": "The metastore is missing.",
    "metastore-size": "The metastore has neither 16 bytes nor the 12 of version 1.x.",
    "metastore-legacy": "The metastore is of version 1.x: message headers begin with 0.",
    "metastore-field": "A field of the metastore has an invalid value.",
    "storage-log-low": "The metastore's current segment is lower than the last existing one.",
    "storage-log-high": "The metastore's current segment does not exist, nor do those before it.",
    # Indexes
    "index-missing": "A segment has no index yet; the C library's readers create it.",
    "index-partial": "The index ends before the data does; the C library's readers continue it.",
    "index-not-closed": "The index of a finished segment has no closing entry; the C library's readers add it.",
    "index-misaligned": "The size of an index is not a multiple of 8.",
    "index-past-end": "An index has entries past the end of the data.",
    "index-wrong": "An index entry is not the offset of its message.",
    "index-closed-early": "The index of the current segment is closed, or closed before the data ends.",
    "index-without-segment": "An index whose segment is missing.",
    # Checkpoints
    "checkpoint-name": "The name of a checkpoint file is not the hex text of a subscriber's name.",
    "checkpoint-empty": "A checkpoint file is empty.",
    "checkpoint-size": "A checkpoint file does not have 8 bytes.",
    "checkpoint-before-first": "A checkpoint is in a segment before the first existing one.",
    "checkpoint-after-last": "A checkpoint is in a segment after the last existing one.",
    "checkpoint-past-end": "A checkpoint's message number is higher than its segment's last message.",
    # pre_commit
    "pre-commit-size": "The pre-commit file is shorter than its first field.",
    "pre-commit-overrun": "The pre-commit buffer claims more bytes in use than it holds.",
    "pre-commit-damaged": "The used part of the pre-commit buffer does not end with a whole message, or holds none.",
    "pre-commit-unflushed": "The pre-commit buffer holds messages; the next writer that closes flushes them.",
    "pre-commit-duplicate": "Messages in the pre-commit buffer are also in the journal; a flush writes them again.",
    "pre-commit-lost": "Messages flushed from the pre-commit buffer are not in the journal.",
}
"""Code to meaning: everything that ``verify`` and reading report. ``docs/verify.md`` lists them."""


def fault(
    code: str,
    file: str,
    offset: int | None,
    found: str,
    expected: str,
    *,
    loses: str = "nothing",
    repair: str = "none needed",
    address: str | None = None,
) -> Fault:
    """A fault with a code of ``CODES``."""
    assert code in CODES, code
    return Fault(code, file, offset, found, expected, loses, repair, Severity.FAULT, STREAM, address)


def note(
    code: str,
    file: str,
    offset: int | None,
    found: str,
    expected: str,
    *,
    loses: str = "nothing",
    repair: str = "none needed",
) -> Fault:
    """A note with a code of ``CODES``: heals by itself, or is harmless."""
    assert code in CODES, code
    return Fault(code, file, offset, found, expected, loses, repair, Severity.NOTE, STREAM)
