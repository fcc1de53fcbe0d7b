"""The parts that all maintenance verbs share: opening the archive, for writing or for a dry run, and printing the
result as text or JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from everlog.aeron.archive.maintenance.dry_run import DryRun
from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.cli.archive.recordings import open_archive
from everlog.cli.archive.running import connect, is_channel, is_served
from everlog.cli.text import json_line, print_error, printable, warn
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.aeron.archive.archive import Archive
    from everlog.aeron.archive.client import AeronArchive

F = TypeVar("F", bound=Callable[..., Any])
DELETE_TIMEOUT_S = 60.0
"""How long to wait until a running archive has deleted files."""


def maintenance_options(command: F) -> F:
    """Decorator that adds ``--dry-run`` and ``--json``."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each recording.")(command)
    text = "Print what would be done, and change nothing."
    return click.option("--dry-run", is_flag=True, help=text)(command)


recording_argument = click.argument("recording", metavar="RECORDING", type=click.IntRange(min=0))
position_argument = click.argument("position", metavar="POSITION", type=click.IntRange(min=0))


class SegmentMaintenance(Protocol):
    """What a closed archive and a running one can do; the methods are those of
    :class:`~everlog.aeron.archive.maintenance.operations.Maintenance`."""

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything after a position."""

    def purge_recording(self, recording_id: int) -> int:
        """Delete a recording."""

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Move a recording's start."""

    def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the files before a recording's start."""

    def attach_segments(self, recording_id: int) -> int:
        """Attach the files before a recording's start."""

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move the segments of a recording to another one."""


@dataclass(frozen=True, slots=True)
class RunningArchive:
    """A running archive. It answers before it deletes files: what deletes some waits for the signal that they are gone.
    Methods raise the archive's errors, also of files that could not be deleted."""

    archive: AeronArchive

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything after a position."""
        return self._delete(lambda: self.archive.truncate_recording(recording_id, position))

    def purge_recording(self, recording_id: int) -> int:
        """Delete a recording."""
        return self._delete(lambda: self.archive.purge_recording(recording_id))

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Move a recording's start."""
        self.archive.detach_segments(recording_id, new_start_position)

    def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the files before a recording's start."""
        return self._delete(lambda: self.archive.delete_detached_segments(recording_id))

    def attach_segments(self, recording_id: int) -> int:
        """Attach the files before a recording's start."""
        return self.archive.attach_segments(recording_id)

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move the segments of a recording to another one."""
        return self._delete(lambda: self.archive.migrate_segments(source_id, target_id))

    def _delete(self, ask: Callable[[], int]) -> int:
        with self.archive.recording_signals() as signals:
            count = ask()
            deadline = time.monotonic() + DELETE_TIMEOUT_S
            while (left := deadline - time.monotonic()) > 0:
                event = signals.take(left)
                if event is not None and event.signal is RecordingSignal.DELETE:
                    self.archive.check_for_error_response()
                    return count
        warn(f"the archive did not say within {DELETE_TIMEOUT_S:g} s that the files are gone")
        return count


@contextmanager
def _reach(folder: str, dry_run: bool, connection: dict[str, Any]) -> Iterator[SegmentMaintenance]:
    """A running archive by its control channel, a closed one as its owner."""
    if is_channel(folder) or (not dry_run and is_served(folder)):
        if dry_run:
            message = "--dry-run needs the archive's folder: a control channel has no such request"
            raise UsageError("--dry-run", found=folder, expected="a folder", message=message)
        with connect(folder, **connection) as archive:
            yield RunningArchive(archive)
        return
    with open_maintenance(folder, dry_run) as maintenance:
        yield maintenance


@contextmanager
def open_maintenance(folder: str, dry_run: bool) -> Iterator[Maintenance]:
    """Open the archive as its owner; changes are on disk when a verb ends. Prints what opening it recovered. With
    ``dry_run``, an object that only records what it would do."""
    with open_archive(folder) as store:
        if dry_run:
            yield DryRun(store.folder)
            return
    with _open(folder) as archive:
        for line in archive.recovered:
            print_error(f"recovered: {line}")
        yield archive.maintenance


def _open(folder: str) -> Archive:
    from everlog.aeron import archive

    return archive.open_archive(folder, checksum=None, catalog_file_sync_level=1)


@dataclass(slots=True)
class Outcome:
    """What a verb did to a recording: a line for people and ``values`` for programs. After a dry run, ``steps`` are the
    steps it would have taken."""

    verb: str
    text: str
    values: dict[str, Any]
    steps: list[str] = field(default_factory=list)

    def print(self, *, as_json: bool, dry_run: bool) -> None:
        """Print it to stdout."""
        if as_json:
            steps = {"dry_run": True, "steps": self.steps} if dry_run else {"dry_run": False}
            click.echo(json_line({"verb": self.verb, **self.values, **steps}))
            return
        for line in self.steps:
            click.echo(printable(line))
        click.echo(f"dry run: {self.text}; nothing was changed" if dry_run else self.text)


def perform(
    folder: str,
    verb: str,
    recording_id: int,
    act: Callable[[SegmentMaintenance], tuple[str, dict[str, Any]]],
    *,
    dry_run: bool,
    as_json: bool,
    **connection: Any,
) -> int:
    """Run ``act`` on the archive and print its outcome for one recording; returns the exit code. ``connection``: the
    options of :func:`~everlog.cli.archive.running.connection_options`, for a running archive."""
    with _reach(folder, dry_run, connection) as maintenance:
        text, values = act(maintenance)
        steps = maintenance.lines if isinstance(maintenance, DryRun) else []
    outcome = Outcome(verb, f"recording {recording_id}: {text}", {"recording_id": recording_id, **values}, steps)
    outcome.print(as_json=as_json, dry_run=dry_run)
    return 0
