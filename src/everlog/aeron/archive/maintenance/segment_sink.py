"""Handing segments over before they are freed: copied into a folder, or given to a program. A segment that was not
taken over is not freed.

As NATS Streaming's ``file_slice_archive_script`` does for its slices, but the file keeps its name, and is freed only
when the program says that it is done.
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
    """A segment file that is about to be freed: of which recording, and which positions it holds."""

    recording_id: int
    name: str
    start_position: int
    end_position: int


class SegmentSink(Protocol):
    """Takes segments over."""

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """Hand over one segment file of the archive; where it is now. On return it may be freed. Raises
        :class:`StoreUnavailable` when it was not taken over."""


class ToFolder:
    """Copies segments into a folder, under their names. On return a copy is on disk, with the same size and CRC-32.

    A crash leaves a ``.everlog-*`` draft, which the next attempt overwrites. A copy that is there already is taken for
    the one that was made before a crash if it is the same; another file of that name is not overwritten.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """See :class:`SegmentSink`. Raises :class:`UsageError` where the folder is the archive's own,
        :class:`StoreExists` for another file of that name."""
        folder, name = self._open(archive), segment.name
        with archive.open(name) as source:
            size, crc = source.size(), _crc(source)
            if folder.exists(name):
                with folder.open(name) as there:
                    if (there.size(), _crc(there)) != (size, crc):
                        where, found = os.path.join(self.path, name), "another file of that name"
                        raise StoreExists(where, found=found, expected="none, or the same segment")
            else:
                self._copy(folder, source, name, size, crc)
            # A copy that a killed process has left may not be on disk yet.
            with folder.open_writable(name) as copy:
                copy.sync()
            folder.sync_folder()
        return os.path.join(self.path, name)

    def _open(self, archive: LocalStorage) -> LocalWritableStorage:
        make_folder(self.path)
        if os.path.realpath(self.path) == os.path.realpath(archive.root):
            raise UsageError("--to", found="the archive's own folder", expected="another folder")
        return LocalWritableStorage(self.path)

    def _copy(self, folder: LocalWritableStorage, source: ReadableFile, name: str, size: int, crc: int) -> None:
        draft = f"{DRAFT_PREFIX}{name}"
        with folder.open_writable(draft, create=True) as copy:
            copy.truncate(0)
            for at, block in nonzero_blocks(source, 0, size):  # a preallocated segment is sparse, and so is its copy
                copy.write_at(at, block)
            copy.truncate(size)
            copy.sync()
            if (copy.size(), _crc(copy)) != (size, crc):
                where, expected = os.path.join(self.path, name), f"{size} bytes with the CRC-32 {crc:08x}"
                raise WriteFailed(where, found="a copy that is not the same", expected=expected)
        folder.rename(draft, name)


class Script:
    """Runs a program for each segment, without a shell: ``COMMAND... FILE RECORDING START END``, the file's path, the
    recording's id, and the positions that the file holds, the end exclusive. Exit code 0 says that it was taken over.

    ``tell`` gets the lines that the program prints, on stdout or stderr. After ``timeout_s`` it is killed, with what it
    has started.
    """

    def __init__(self, command: Sequence[str], timeout_s: float, tell: Callable[[str], None]) -> None:
        if not command:
            raise UsageError("--archive-script", found="nothing", expected="a program and its arguments")
        self.command = list(command)
        self._timeout_s = timeout_s
        self._tell = tell

    def give(self, archive: LocalStorage, segment: Segment) -> str:
        """See :class:`SegmentSink`."""
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
            raise StoreUnavailable(self.command[0], found=found, expected="a program") from error
        printer = threading.Thread(target=self._print, args=(process,), daemon=True)
        printer.start()
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._refuse(segment, f"no end within {self._timeout_s:g} s")
        finally:
            if process.poll() is None:  # in time or not: an interrupt of this process ends it, too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            # What it has started, and left behind, may hold its output open.
            printer.join(_SECONDS_FOR_THE_REST)
        if code != 0:
            self._refuse(segment, f"exit code {code}" if code > 0 else f"signal {-code}")
        return " ".join(self.command)

    def _refuse(self, segment: Segment, found: str) -> None:
        hint = f"{segment.name} was not freed"
        raise StoreUnavailable(self.command[0], found=found, expected=f"exit code 0 for {segment.name}", hint=hint)

    def _print(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._tell(line.decode("utf-8", "replace").rstrip("\n"))


def _crc(file: ReadableFile) -> int:
    """CRC-32 of all of a file."""
    return crc32_of(file, 0, file.size())
