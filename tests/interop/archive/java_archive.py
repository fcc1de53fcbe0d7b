"""The real Aeron Archive as a peer on the same folders: a program of ours (``ArchivePeer.java``) around it, and the
tools that come with it.

Typical use, with the fixture ``start_archive``::

    with start_archive(folder, ArchiveOptions(checksum="crc32")) as archive:
        recorded = archive.record("aeron:ipc?term-length=64k", 10, Messages(seed=1, sizes=SMALL, count=100))
        archive.replay(recorded.recording_id).messages

Java and the jar come from :mod:`aeron_java`.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools import aeron_java
from tools.aeron_java import Missing

from tests.interop.line_process import LineProcess, PeerError

PROGRAM = Path(__file__).with_name("ArchivePeer.java")
FLAGS = ("-Xmx256m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SECONDS_OF_A_TOOL = 120.0
MARK_NAME = "archive-mark.dat"

SMALL = (1, 31, 32, 33, 0, 64, 100, 17, 200, 7)
MIXED = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8000, 64, 1408)
"""Sizes of the golden recordings: without and with messages of several fragments."""

LOCAL_CONTROL, LOCAL_CONTROL_STREAM = "aeron:ipc?term-length=64k", 90_001
"""Where clients on the archive's driver send their requests."""

CHECKSUM_CLASSES = {"crc32": "io.aeron.archive.checksum.Crc32", "crc32c": "io.aeron.archive.checksum.Crc32c"}


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """How the archive is started. Sync levels and checksums are Aeron's; ``checksum`` is ``crc32`` or ``crc32c``, for
    recording and replaying both. ``term_bytes`` is used where a channel does not say ``term-length``.
    ``forgets_owner`` removes the mark file that a killed owner left, which otherwise keeps others out for 10 s.
    ``driver_folder``: of a media driver that runs already; by default the archive starts one. ``control_channel``: UDP,
    for other clients beside :data:`LOCAL_CONTROL`. ``events_channel``: of recording events. ``password``: what clients
    that send the credentials ``first`` must answer to the challenge ``who are you?``. ``archive``: control channel of
    an archive that serves by the driver in ``driver_folder``: none is started, the process is only a client, with
    ``answers`` as channel for the answers, and ``credentials``."""

    segment_bytes: int = 128 << 10
    term_bytes: int = 64 << 10
    file_sync_level: int = 0
    catalog_sync_level: int | None = None
    checksum: str | None = None
    catalog_bytes: int | None = None
    forgets_owner: bool = False
    driver_folder: Path | None = None
    control_channel: str | None = None
    events_channel: str | None = None
    password: str | None = None
    archive: str | None = None
    answers: str | None = None
    credentials: str | None = None

    def arguments(self) -> list[str]:
        """For ``ArchivePeer.java``."""
        catalog_level = self.file_sync_level if self.catalog_sync_level is None else self.catalog_sync_level
        found = [f"segment={self.segment_bytes}", f"term={self.term_bytes}", f"sync={self.file_sync_level}"]
        found.append(f"catalog-sync={catalog_level}")
        if self.checksum is not None:
            found.append(f"checksum={CHECKSUM_CLASSES[self.checksum]}")
        if self.catalog_bytes is not None:
            found.append(f"catalog={self.catalog_bytes}")
        if self.driver_folder is not None:
            found.append("external-driver=true")
        chosen = {"control": self.control_channel, "events": self.events_channel, "password": self.password}
        chosen |= {"archive": self.archive, "answers": self.answers, "credentials": self.credentials}
        found += [f"{name}={value}" for name, value in chosen.items() if value is not None]
        return found


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Messages ``first`` to ``first + count - 1`` of a stream, by the rule of the golden recordings."""

    seed: int
    sizes: tuple[int, ...] = SMALL
    count: int
    first: int = 0

    def payload(self, index: int) -> bytes:
        """The payload of message ``index``, whether or not it is one of these."""
        length = self.sizes[index % len(self.sizes)]
        base, step = self.seed * 31 + index * 7 + length, 1 + (index & 3)
        period = bytes((base + j * step) & 0xFF for j in range(min(length, 256)))
        return (period * (length // 256 + 1))[:length]

    def reserved_value(self, index: int) -> int:
        """The reserved value of every fragment of message ``index``."""
        return self.seed << 32 | index

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Payloads and reserved values."""
        for index in range(self.first, self.first + self.count):
            yield self.payload(index), self.reserved_value(index)

    def rows(self) -> list[tuple[int, int, int]]:
        """Length, CRC32 and reserved value of each."""
        return [(len(payload), zlib.crc32(payload), reserved) for payload, reserved in self]


@dataclass(frozen=True)
class Descriptor:
    """What the archive lists of a recording; ``stop_position`` is -1 (``NULL_POSITION``) while it is recorded."""

    recording_id: int
    start_timestamp: int
    stop_timestamp: int
    start_position: int
    stop_position: int
    initial_term_id: int
    segment_file_length: int
    term_buffer_length: int
    mtu_length: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str


@dataclass(frozen=True)
class Positions:
    """As the archive answers for each; -1 is ``NULL_POSITION``. ``maximum`` is the stop position, or the recording
    position while there is none."""

    start: int
    recording: int
    stop: int
    maximum: int


@dataclass(frozen=True)
class Recorded:
    """What was published and recorded: from ``begin`` to ``end``."""

    recording_id: int
    begin: int
    end: int
    session_id: int


@dataclass(frozen=True)
class Replayed:
    """A message (or fragment) as the subscriber of a replay saw it. ``end_position`` is that behind its last frame."""

    end_position: int
    length: int
    crc32: int
    reserved_value: int
    flags: int
    term_id: int
    term_offset: int


@dataclass(frozen=True)
class Replay:
    """A whole replay. ``digest`` is :func:`digest` of its messages, which are kept only where that was asked for."""

    count: int
    payload_bytes: int
    digest: int
    begin: int
    end: int
    messages: tuple[Replayed, ...] = ()

    def rows(self) -> list[tuple[int, int, int]]:
        """As :meth:`Messages.rows`."""
        return [(message.length, message.crc32, message.reserved_value) for message in self.messages]


@dataclass(frozen=True)
class Signal:
    """A recording signal that the archive sent: ``START``, ``STOP``, ``EXTEND``, ``DELETE`` and others."""

    name: str
    recording_id: int
    position: int


def digest(rows: Iterable[tuple[int, int, int]]) -> int:
    """One number for lengths, CRC32s and reserved values of many messages: CRC32 over ``<iIq`` of each."""
    result = 0
    for length, crc, reserved in rows:
        result = zlib.crc32(struct.pack("<iIq", length, crc, reserved), result)
    return result


class JavaArchive(LineProcess):
    """A running archive. Use as a context manager, or end it with :meth:`close` or
    :meth:`kill`. Operations raise :class:`PeerError` with what the archive answered, :class:`TimeoutError` when it
    does not, and :class:`EOFError` when it has died. ``signals`` are all that came so far."""

    def __init__(self, jar: Path, folder: Path, options: ArchiveOptions) -> None:
        """Starts it and waits until it serves. Raises :class:`PeerError` when the archive refuses the folder."""
        self.folder = folder
        self.options = options
        self.signals: list[Signal] = []
        if options.forgets_owner:
            (folder / MARK_NAME).unlink(missing_ok=True)
        memory = Path("/dev/shm")
        self._driver_folder = tempfile.mkdtemp(prefix="everlog-aeron-", dir=memory if memory.is_dir() else None)
        self.driver_folder = driver = options.driver_folder or Path(self._driver_folder) / "driver"
        super().__init__(
            aeron_java.command(jar, "ArchivePeer", folder, driver, *options.arguments(), source=PROGRAM, flags=FLAGS)
        )
        self.archive_id = int(self.greeting[0])

    # What it holds

    def recordings(self) -> list[Descriptor]:
        """All that the archive lists, which are the valid ones."""
        _, lines = self.ask("list")
        return [Descriptor(**json.loads(line)) for line in lines]

    def find(self, recording_id: int) -> Descriptor:
        """One of :meth:`recordings`. Raises :class:`KeyError`."""
        return {found.recording_id: found for found in self.recordings()}[recording_id]

    def positions(self, recording_id: int) -> Positions:
        """Start, recording, stop and maximum recorded position."""
        return Positions(*(int(word) for word in self.ask(f"positions {recording_id}")[0]))

    def replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        fragments: bool = False,
        keeps_messages: bool = True,
    ) -> Replay:
        """What a client gets replayed, by default from the recording's start to what is recorded now; whole messages,
        or single fragments."""
        begin, many = -1 if position is None else position, -1 if length is None else length
        kind = "fragments" if fragments else "messages"
        words, lines = self.ask(f"replay {recording_id} {begin} {many} {kind}{' each' if keeps_messages else ''}")
        count, payload_bytes, total, begin, end = (int(word) for word in words)
        messages = tuple(Replayed(*(int(word) for word in line.split()[1:])) for line in lines)
        return Replay(count, payload_bytes, total, begin, end, messages)

    def errors(self) -> list[str]:
        """What the archive and the driver gave to their error handlers so far."""
        return [json.loads(line) for line in self.ask("errors")[1]]

    # Recording

    def record(self, channel: str, stream_id: int, messages: Messages | None = None, *, stop: bool = True) -> Recorded:
        """A new recording of an exclusive publication, and what is published there. Where it begins and its term
        length are parameters of the channel. Without ``stop`` it goes on: see :meth:`publish`."""
        return self._feed(f"record {channel} {stream_id}", messages, stop)

    def extend(self, recording_id: int, messages: Messages | None = None, *, stop: bool = True) -> Recorded:
        """Goes on with a stopped recording: a new exclusive publication at its stop position."""
        return self._feed(f"extend {recording_id}", messages, stop)

    def _feed(self, command: str, messages: Messages | None, stop: bool) -> Recorded:
        recorded = Recorded(*(int(word) for word in self.ask(command)[0]))
        if messages is not None:
            recorded = self.publish(recorded.recording_id, messages)
        if stop:
            self.stop(recorded.recording_id)
        return recorded

    def publish(self, recording_id: int, messages: Messages) -> Recorded:
        """More messages to a recording that goes on; returns when all are recorded."""
        return Recorded(*(int(word) for word in self.ask(self._publish(recording_id, messages))[0]))

    def publish_without_waiting(self, recording_id: int, messages: Messages) -> None:
        """As :meth:`publish`, so that :meth:`kill` comes in the middle of it; no other command may follow."""
        self.tell(self._publish(recording_id, messages))

    @staticmethod
    def _publish(recording_id: int, messages: Messages) -> str:
        sizes = ",".join(str(size) for size in messages.sizes)
        return f"publish {recording_id} {messages.seed} {messages.first} {messages.count} {sizes}"

    def stop(self, recording_id: int) -> int:
        """Ends what :meth:`record` or :meth:`extend` began; the stop position."""
        return self._number(f"stop {recording_id}")

    # Maintenance: each returns the count of segment files that the archive answers, when these are gone

    def truncate(self, recording_id: int, position: int) -> int:
        """Cuts the end off."""
        return self._number(f"truncate {recording_id} {position}")

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Detaches segments and deletes them."""
        return self._number(f"purge-segments {recording_id} {new_start_position}")

    def detach(self, recording_id: int, new_start_position: int) -> None:
        """Moves the start position; the files stay."""
        self._number(f"detach {recording_id} {new_start_position}")

    def attach(self, recording_id: int) -> int:
        """Takes segments before the start position in again."""
        return self._number(f"attach {recording_id}")

    def delete_detached(self, recording_id: int) -> int:
        """Deletes segments before the start position."""
        return self._number(f"delete-detached {recording_id}")

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Moves all segments of one recording to the end or the beginning of another."""
        return self._number(f"migrate-segments {source_id} {target_id}")

    def purge(self, recording_id: int) -> int:
        """Deletes a recording."""
        return self._number(f"purge {recording_id}")

    # The process

    def kill(self) -> None:
        """As ``kill -9`` does: what the archive's folder holds is what it had written. Idempotent."""
        super().kill()
        shutil.rmtree(self._driver_folder, ignore_errors=True)

    def take_aside(self, line: str) -> bool:
        """Signals are kept."""
        kind, *words = line.split()
        if kind == "signal":
            name, recording_id, position = words
            self.signals.append(Signal(name, int(recording_id), int(position)))
        return kind == "signal"

    def _number(self, command: str) -> int:
        (word,), _ = self.ask(command)
        return int(word)


@dataclass(frozen=True)
class ToolResult:
    """What a tool printed, and its exit code, which is 255 where it exits with -1."""

    stdout: str
    stderr: str
    exit_code: int
    arguments: tuple[str, ...] = field(default=(), compare=False)


def archive_tool(jar: Path, folder: Path, *arguments: object, says: str = "y") -> ToolResult:
    """``ArchiveTool FOLDER verb ...``: ``archive_tool(jar, folder, "verify", "-a", "-checksum",
    CHECKSUM_CLASSES["crc32"])``. ``says`` answers its question, where it asks one."""
    return _tool(jar, "io.aeron.archive.ArchiveTool", folder, arguments, says)


def cluster_tool(jar: Path, folder: Path, *arguments: object, says: str = "y") -> ToolResult:
    """``ClusterTool FOLDER verb ...``."""
    return _tool(jar, "io.aeron.cluster.ClusterTool", folder, arguments, says)


def _tool(jar: Path, name: str, folder: Path, arguments: tuple[object, ...], says: str) -> ToolResult:
    words = tuple(str(argument) for argument in arguments)
    ended = subprocess.run(
        aeron_java.command(jar, name, folder, *words, flags=FLAGS),
        input=f"{says}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_OF_A_TOOL,
    )
    return ToolResult(ended.stdout, ended.stderr, ended.returncode, words)


def prepare(*, download: bool, version: str = aeron_java.VERSION) -> Path:
    """The jar, with Java there and the program compiled. Raises :class:`Missing`."""
    jar = aeron_java.jar(download=download, version=version)
    aeron_java.classes(PROGRAM, jar)
    return jar


__all__ = [
    "CHECKSUM_CLASSES",
    "MIXED",
    "SMALL",
    "ArchiveOptions",
    "Descriptor",
    "JavaArchive",
    "Messages",
    "Missing",
    "PeerError",
    "Positions",
    "Recorded",
    "Replay",
    "Replayed",
    "Signal",
    "ToolResult",
    "archive_tool",
    "cluster_tool",
    "digest",
    "prepare",
]
