"""The faults of a journal: their codes, and how those met in the data are told."""

from __future__ import annotations

from everlog.core.report import Fault, Severity

STREAM = "journal"
"""A journal is one stream; this is its name."""

CODES: dict[str, str] = {
    # The data of a segment
    "torn-record": "A message was not written to its end. Others may be written behind it.",
    "merged-records": "A message was not written to its end, and by its length it ends where a later one does: "
    "the original gives one message made of two.",
    "torn-header": "The segment ends inside a message header.",
    "damaged-bytes": "Bytes that are no message, between messages or behind the last one.",
    "zero-bytes": "Zero bytes where a message should be, as file systems leave them after a power loss.",
    "undecodable-payload": "A compressed payload that does not decode to the length its header says.",
    "unknown-compression": "The header magic names a compression provider that is not known.",
    "null-provider-empty-message": "The null provider of the original stored an empty message as 16,384 zero bytes.",
    "framing-changes": "The header magic changes inside a segment: a newer version wrote on in an old journal.",
    "magic-differs": "A segment's messages have another header magic than the metastore says.",
    "segment-cut-while-read": "The segment became shorter while it was read.",
    "segment-gone-while-read": "The segment was deleted, as readers do when all are done with it, before it was read.",
    # The folder
    "missing-segments": "Segments between the first and the last one are not there.",
    "empty-closed-segment": "A finished segment is empty.",
    "segment-short": "A finished segment is shorter than the limit at which it should have been finished.",
    "unknown-file": "A file or folder that is no part of a journal.",
    "unreadable-file": "The operating system does not let a file be read.",
    # metastore
    "metastore-missing": "There is no metastore.",
    "metastore-size": "The metastore has neither 16 bytes nor the 12 of version 1.x.",
    "metastore-legacy": "The metastore is of version 1.x: message headers begin with 0.",
    "metastore-field": "A field of the metastore has a value that no writer gives it.",
    "storage-log-low": "The metastore's current segment is lower than the last one there is.",
    "storage-log-high": "The metastore's current segment is not there, nor are those before it.",
    # Indexes
    "index-missing": "A segment has no index yet; readers of the original make it.",
    "index-partial": "The index ends before the data does; readers of the original go on with it.",
    "index-not-closed": "The index of a finished segment has no closing entry; readers of the original add it.",
    "index-misaligned": "The size of an index is no multiple of 8.",
    "index-past-end": "An index has entries past the end of the data.",
    "index-wrong": "An index entry is not the offset of the message that it is for.",
    "index-closed-early": "The index of the segment that is written now is closed, or closed before the data ends.",
    "index-without-segment": "An index whose segment is not there.",
    # Checkpoints
    "checkpoint-name": "The name of a checkpoint file is no hex text of a subscriber's name.",
    "checkpoint-empty": "A checkpoint file is empty.",
    "checkpoint-size": "A checkpoint file has not 8 bytes.",
    "checkpoint-before-first": "A checkpoint is in a segment below the first there is.",
    "checkpoint-after-last": "A checkpoint is in a segment above the last there is.",
    "checkpoint-past-end": "A checkpoint's message number is above what its segment has.",
    # pre_commit
    "pre-commit-size": "The pre-commit file is shorter than its first field.",
    "pre-commit-overrun": "The pre-commit buffer says that more is in use than it holds.",
    "pre-commit-damaged": "What is in use of the pre-commit buffer does not end with a whole message, or is none.",
    "pre-commit-unflushed": "Messages wait in the pre-commit buffer; the next writer that closes flushes them.",
    "pre-commit-duplicate": "Messages in the pre-commit buffer are in the journal too; a flush writes them again.",
    "pre-commit-lost": "Messages that were flushed from the pre-commit buffer are not in the journal.",
}
"""Code to meaning: what ``verify`` and reading can report. ``docs/verify.md`` lists them."""


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
    """A fault with one of ``CODES``."""
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
    """A note with one of ``CODES``: it heals by itself, or is odd but harmless."""
    assert code in CODES, code
    return Fault(code, file, offset, found, expected, loses, repair, Severity.NOTE, STREAM)
