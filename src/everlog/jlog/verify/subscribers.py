"""Verifies checkpoints against the existing segments."""

from __future__ import annotations

from collections.abc import Mapping

from everlog.core.report import Report
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.faults import fault
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.reading.journal import Journal

_SET = "set the checkpoint to where the subscriber is to continue"


def check_subscribers(journal: Journal, ends: Mapping[int, int], report: Report) -> None:
    """Verify every checkpoint. ``ends`` maps each segment read to the number after its last message, including lost
    ones."""
    for checkpoint in read_checkpoints(journal.storage, journal.storage.names()):
        _check(checkpoint, journal, ends, report)


def _check(checkpoint: Checkpoint, journal: Journal, ends: Mapping[int, int], report: Report) -> None:
    file, name = checkpoint.file, checkpoint.name
    if checkpoint.error is not None:
        report.add(
            fault("unreadable-file", file, None, checkpoint.error, "a readable file", repair="grant access to it")
        )
    elif checkpoint.log is None or checkpoint.marker is None:
        code = "checkpoint-size" if checkpoint.byte_count else "checkpoint-empty"
        report.add(
            fault(
                code,
                file,
                None,
                f"{checkpoint.byte_count} bytes",
                f"{JlogCheckpoint.size} bytes",
                loses=f"the place of subscriber {name}; the C library may delete segments that it needs",
                repair=_SET,
            )
        )
    else:
        _check_place(checkpoint, checkpoint.log, checkpoint.marker, journal, ends, report)


def _check_place(
    checkpoint: Checkpoint, log: int, marker: int, journal: Journal, ends: Mapping[int, int], report: Report
) -> None:
    file, name = checkpoint.file, checkpoint.name
    address = f"{log:08x}:{marker:08x}"
    first = journal.segments[0].log if journal.segments else journal.metastore.storage_log
    last = journal.last_log if journal.last_log is not None else journal.metastore.storage_log
    if first is None or last is None:
        return
    if log < first and journal.segments:
        report.add(
            fault(
                "checkpoint-before-first",
                file,
                JlogCheckpoint.log.offset,  # type: ignore[attr-defined]
                f"segment {log:08x}",
                f"{first:08x} or a later one",
                loses=f"the messages in between, for subscriber {name}; the C library's repair skips {first:08x} too",
                repair=_SET,
                address=address,
            )
        )
    elif log > last:
        report.add(
            fault(
                "checkpoint-after-last",
                file,
                JlogCheckpoint.log.offset,  # type: ignore[attr-defined]
                f"segment {log:08x}",
                f"{last:08x} or an earlier one",
                loses=f"every message for subscriber {name}, until segment {log:08x} is written",
                repair=_SET,
                address=address,
            )
        )
    elif marker >= ends.get(log, marker + 1) and (ends[log] > 1 or log == last):  # an emptied segment has its own fault
        report.add(
            fault(
                "checkpoint-past-end",
                file,
                JlogCheckpoint.marker.offset,  # type: ignore[attr-defined]
                f"message {marker}",
                f"at most {ends[log] - 1}",
                loses=f"the rest of segment {log:08x} that subscriber {name} had not read",
                repair=_SET,
                address=address,
            )
        )
