"""Hands segments over before they are freed: to a folder, as copies, or to a program. A segment that was not taken over
is not freed.

NATS Streaming's ``file_slice_archive_script`` does the same for its slices; here the file keeps its name, and it is
freed only after the program exits with code 0.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from everlog.core.files.crc import crc32_of
from everlog.core.files.storage import LocalStorage, ReadableFile
from everlog.core.files.writable import DRAFT_PREFIX, LocalWritableStorage, make_folder
from everlog.core.files.zeros import nonzero_blocks
from everlog.errors import StoreExists, StoreUnavailable, UsageError, WriteFailed

DEFAULT_TIMEOUT_S = 600.0
_SECONDS_FOR_THE_REST = 1.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file that is about to be freed, with its recording and the positions that it holds."""

    recording_id: int
    name: str
    start_position: int
    end_position: int


class SegmentSink(Protocol):
    """Takes segments over."""

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """Hand over one segment file of the archive, which may be freed on return. Return where it is now. Raises
        :class:`StoreUnavailable` if it was not taken over."""


class ToFolder:
    """Copies segments into a folder, under their names. On return a copy is on disk, with the same size and CRC-32.

    A crash leaves a ``.everlog-*`` draft, which the next attempt overwrites. An identical copy that exists already is
    kept; a different file of that name is not overwritten.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """See :class:`SegmentSink`. Raises :class:`UsageError` if the folder is the archive's own, and
        :class:`StoreExists` if a different file of that name exists."""
        folder, name = self._open(archive), segment.name
        with archive.open(name) as source:
            size, crc = source.size(), _crc(source)
            if folder.exists(name):
                with folder.open(name) as existing:
                    if (existing.size(), _crc(existing)) != (size, crc):
                        where = os.path.join(self.path, name)
                        message = f"{where} exists and differs from the archive's segment"
                        found, expected = "a different file of that name", "none, or the same segment"
                        raise StoreExists(where, found=found, expected=expected, message=message)
            else:
                self._copy(folder, source, name, size, crc)
            # A copy left by a killed process may not be on disk yet.
            with folder.open_writable(name) as copy:
                copy.sync()
            folder.sync_folder()
        return os.path.join(self.path, name)

    def _open(self, archive: LocalStorage) -> LocalWritableStorage:
        make_folder(self.path)
        if os.path.realpath(self.path) == os.path.realpath(archive.root):
            found, message = "the archive's own folder", f"--to must not be the archive's own folder: {self.path}"
            raise UsageError("--to", found=found, expected="another folder", message=message)
        return LocalWritableStorage(self.path)

    def _copy(self, folder: LocalWritableStorage, source: ReadableFile, name: str, size: int, crc: int) -> None:
        draft = f"{DRAFT_PREFIX}{name}"
        with folder.open_writable(draft, create=True) as copy:
            copy.truncate(0)
            for at, block in nonzero_blocks(source, 0, size):  # keeps the copy as sparse as a preallocated segment
                copy.write_at(at, block)
            copy.truncate(size)
            copy.sync()
            if (copy.size(), _crc(copy)) != (size, crc):
                where, expected = os.path.join(self.path, name), f"{size} bytes with the CRC-32 {crc:08x}"
                message = f"the copy {where} differs from the segment"
                raise WriteFailed(where, found="a different copy", expected=expected, message=message)
        folder.rename(draft, name)


class Script:
    """Runs a program for each segment, without a shell: ``COMMAND... FILE RECORDING START END`` with the file's path,
    the recording's id, and the positions that the file holds, the end exclusive. Exit code 0 means that the segment was
    taken over.

    ``report`` gets the lines that the program prints to stdout or stderr. After ``timeout_s`` the program is killed,
    with its child processes.
    """

    def __init__(self, command: Sequence[str], timeout_s: float, report: Callable[[str], None]) -> None:
        if not command:
            message = "--archive-script needs a program"
            raise UsageError("--archive-script", found="nothing", expected="a program", message=message)
        self.command = list(command)
        self._timeout_s = timeout_s
        self._report = report

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """Run the program for a segment and wait for it; return the command line. Raises :class:`StoreUnavailable`
        unless it exits with 0 in time."""
        path = os.path.abspath(archive.path(segment.name))
        numbers = (segment.recording_id, segment.start_position, segment.end_position)
        arguments = [*self.command, path, *map(str, numbers)]
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            found = (getattr(error, "strerror", None) or str(error)).lower()
            message = f"can't run {self.command[0]}: {found}"
            raise StoreUnavailable(self.command[0], found=found, expected="a program", message=message) from error
        printer = threading.Thread(target=self._print, args=(process,), daemon=True)
        printer.start()
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._refuse(segment, f"did not exit within {self._timeout_s:g} s")
        finally:
            if process.poll() is None:  # also after a KeyboardInterrupt here
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            # Child processes that outlive it may hold its output open.
            printer.join(_SECONDS_FOR_THE_REST)
        if code != 0:
            self._refuse(segment, f"exited with code {code}" if code > 0 else f"was killed by signal {-code}")
        return " ".join(self.command)

    def _refuse(self, segment: Segment, found: str) -> None:
        hint = f"{segment.name} was not freed"
        command, expected = self.command[0], f"exit code 0 for {segment.name}"
        raise StoreUnavailable(command, found=found, expected=expected, hint=hint, message=f"{command} {found}")

    def _print(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._report(line.decode("utf-8", "replace").rstrip("\n"))


def _crc(file: ReadableFile) -> int:
    return crc32_of(file, 0, file.size())
