"""``everlog archive DIR purge``: deletes recordings' oldest segments, after handing them over."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from everlog.aeron.archive.maintenance.dry_run import DryRun
from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.aeron.archive.maintenance.purging import PurgedSegment, position_at_time
from everlog.aeron.archive.maintenance.purging import purge as purge_segments
from everlog.aeron.archive.maintenance.segment_sink import DEFAULT_TIMEOUT_S, Script, SegmentSink, ToFolder
from everlog.cli.archive.maintenance import Outcome, maintenance_options, open_maintenance
from everlog.cli.archive.recordings import open_archive
from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.opening import sbe_schema_option
from everlog.cli.seconds import Seconds
from everlog.cli.text import print_error
from everlog.core.counting import counted
from everlog.core.files.storage import LocalStorage
from everlog.errors import UsageError

MIN_TIMEOUT_S = 0.001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a purge must keep: everything from a position or a time on, and the last ``keep_bytes``. ``times`` are the
    store's options for finding messages' times."""

    position: int | None
    time_ns: int | None
    keep_bytes: int | None
    times: dict[str, Any]

    def target(self, folder: str, maintenance: Maintenance, recording_id: int) -> int:
        """The latest position at which the recording may start after the purge."""
        before = self.position
        if before is None and self.time_ns is not None:
            furthest = maintenance.purge_position(recording_id, 1 << 62, self.keep_bytes)
            with open_archive(folder, **self.times) as store:
                before = position_at_time(store, store.folder.recording(str(recording_id)), furthest, self.time_ns)
        return maintenance.purge_position(recording_id, before, self.keep_bytes)


@click.command
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=click.IntRange(min=0))
@click.option("--before", metavar="POSITION|TIME", help="Keep everything from this position or time on.")
@click.option("--keep-bytes", type=click.IntRange(min=0), metavar="N", help="Keep the last N bytes.")
@click.option("--to", "folder_to", metavar="FOLDER", help="Copy each segment to FOLDER before deleting it.")
@click.option("--archive-script", metavar="CMD", help="Run CMD FILE RECORDING START END before deleting a segment.")
@click.option(
    "--script-timeout",
    type=Seconds(MIN_TIMEOUT_S),
    metavar="SECONDS",
    help=f"Kill a script that runs longer, and keep the segment (default: {DEFAULT_TIMEOUT_S:g}).",
)
@click.option("--timestamp-from", metavar="SOURCE", help="With --before TIME: where messages' times are, as in read.")
@sbe_schema_option
@maintenance_options
@click.pass_obj
def purge(folder: str, /, recordings: tuple[int, ...], dry_run: bool, as_json: bool, **given: Any) -> int:
    """Delete the oldest segments of recordings: only whole segments, never past the limits. With --to or
    --archive-script each segment is handed over first, and stays if that fails. TIME is ISO 8601, in UTC unless it
    names a zone.
    """
    limits, segment_sink = _limits(given), _segment_sink(given)
    with ignoring_broken_pipe(), open_maintenance(folder, dry_run) as maintenance:
        for recording_id in dict.fromkeys(recordings):
            target = limits.target(folder, maintenance, recording_id)
            run = _Run(folder, maintenance, recording_id, target, as_json=as_json)
            run.dry_run() if isinstance(maintenance, DryRun) else run.purge(segment_sink)
    return 0


def _limits(given: dict[str, Any]) -> Limits:
    text, source = given["before"], given["timestamp_from"]
    if text is None and given["keep_bytes"] is None:
        raise UsageError("purge", found="no limit", message="purge needs --before, --keep-bytes, or both")
    position = int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 20 else None
    time_ns = None if text is None or position is not None else parse_time(text)
    if time_ns is not None and source is None:
        hint = "such as --timestamp-from reserved_value:ns"
        raise UsageError("--before", found="a time", hint=hint, message="--before TIME needs --timestamp-from")
    if time_ns is None and source is not None:
        raise UsageError("--timestamp-from", message="--timestamp-from needs --before TIME")
    times = {"timestamp_from": source, "sbe_schema": given["sbe_schema"]}
    return Limits(position, time_ns, given["keep_bytes"], {k: v for k, v in times.items() if v is not None})


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time, in UTC unless it names a zone, to nanoseconds since 1970. Raises :class:`UsageError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "a position, or a time such as 2024-05-06T07:08:09Z"
        raise UsageError("--before", found=repr(text), expected=expected) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def _segment_sink(given: dict[str, Any]) -> SegmentSink | None:
    script, folder, timeout_s = given["archive_script"], given["folder_to"], given["script_timeout"]
    if script is not None and folder is not None:
        raise UsageError("--to", message="--to and --archive-script exclude each other")
    if script is None:
        if timeout_s is not None:
            raise UsageError("--script-timeout", message="--script-timeout needs --archive-script")
        return None if folder is None else ToFolder(folder)
    try:
        command = shlex.split(script)
    except ValueError as error:
        text = f"--archive-script must be a program and its arguments: {str(error).lower()}"
        raise UsageError("--archive-script", found=script, expected="a program", message=text) from error
    return Script(command, timeout_s or DEFAULT_TIMEOUT_S, print_error)


class _Run:
    """The purge of one recording. Prints what was deleted when it ends, also after an error."""

    def __init__(self, folder: str, maintenance: Maintenance, recording_id: int, target: int, *, as_json: bool) -> None:
        self.maintenance, self.recording_id, self.target, self.as_json = maintenance, recording_id, target, as_json
        self._folder = folder
        self._freed: list[PurgedSegment] = []

    def dry_run(self) -> None:
        """Print what a purge would delete."""
        assert isinstance(self.maintenance, DryRun)
        segments = self.maintenance.segments_before(self.recording_id, self.target)
        steps = [f"{name}: freed, positions {start} to {end}" for start, end, name in segments]
        outcome = Outcome("purge", self._text(len(segments)), self._values(self.target, len(segments)), steps)
        outcome.print(as_json=self.as_json, dry_run=True)

    def purge(self, segment_sink: SegmentSink | None) -> None:
        """Hand over and delete the segments before the target."""
        storage = LocalStorage(self._folder)
        is_done = False
        try:
            for freed in purge_segments(self.maintenance, storage, self.recording_id, self.target, segment_sink):
                self._freed.append(freed)
            is_done = True
        finally:
            if is_done or self._freed:
                self._print()

    def _print(self) -> None:
        count = len(self._freed)
        start = self._freed[-1].segment.end_position if self._freed else self.target
        segments = [
            {
                "file": freed.segment.name,
                "start_position": freed.segment.start_position,
                "end_position": freed.segment.end_position,
                "taken_by": freed.taken_by,
            }
            for freed in self._freed
        ]
        values = self._values(start, count) | {"segments": segments}
        Outcome("purge", self._text(count, start), values).print(as_json=self.as_json, dry_run=False)

    def _text(self, count: int, start: int | None = None) -> str:
        start = self.target if start is None else start
        return f"recording {self.recording_id}: {counted(count, 'segment')} freed, starts at {start}"

    def _values(self, start: int, count: int) -> dict[str, Any]:
        return {"recording_id": self.recording_id, "start_position": start, "files": count}
