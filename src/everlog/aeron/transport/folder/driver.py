"""Reads a media driver's folder: ``cnc.dat``, and log buffers with their terms."""

from __future__ import annotations

import time
from collections.abc import Mapping

from everlog.aeron.transport.folder.log_scan import LogContext, LogScan
from everlog.aeron.transport.format.cnc_file import CNC_NAME, CncFile
from everlog.aeron.transport.format.counters import PUBLISHER_POSITION, RECEIVER_HWM, RECEIVER_POSITION, Counter
from everlog.aeron.transport.format.log_buffers import (
    FOLDERS,
    LogBuffer,
    list_names,
    parse_name,
    read_log_buffer,
    terms_of,
)
from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.report import Fault
from everlog.errors import EverlogError, UnknownStream
from everlog.kernel import columns as kernel
from everlog.time_units import NS_PER_MS


class DriverFolder:
    """A folder with ``cnc.dat``, ``loss-report.dat``, ``publications`` and ``images``, or some of them. Each call reads
    what it needs."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._mark_ids: dict[int, int] = {}
        self._newest_registration = -1

    @property
    def is_drivers(self) -> bool:
        """Whether the folder has a ``cnc.dat``, a loss report or a log buffer."""
        names = set(self.storage.names())
        if names & {CNC_NAME, LOSS_REPORT_NAME}:
            return True
        return any(parse_name(n) is not None for f in FOLDERS if f in names for n in _names_in(self.storage, f))

    # cnc.dat

    def open_cnc(self) -> CncFile:
        """Open ``cnc.dat``. Raises as :meth:`CncFile.open` does."""
        return CncFile.open(self.storage)

    def counters(self) -> list[Counter]:
        """Read the allocated counters; empty if ``cnc.dat`` can't be read."""
        try:
            with self.open_cnc() as cnc:
                return cnc.counters()
        except EverlogError:
            return []

    def is_live(self) -> bool:
        """Whether a driver runs here: its last heartbeat is within the timeout."""
        try:
            with self.open_cnc() as cnc:
                return cnc.is_live(time.time_ns() // NS_PER_MS)
        except EverlogError:
            return False

    # Log buffers

    def log_names(self) -> list[str]:
        """List the streams: the log buffers' names without their suffix."""
        return list(list_names(self.storage))

    def open_log(self, stream: str) -> tuple[ReadableFile, LogBuffer]:
        """Open a log buffer's file and read its metadata. Raises :class:`UnknownStream`, :class:`CorruptData`."""
        folder, _, rest = stream.partition("/")
        registration_id = parse_name(f"{rest}.logbuffer")
        known = folder in FOLDERS and registration_id is not None
        if not known or not self.storage.exists(f"{stream}.logbuffer"):
            message = f"no log buffer {stream!r} in {self.storage.root} (see: everlog ls {self.storage.root})"
            raise UnknownStream(self.storage.root, found=f"no log buffer {stream!r}", message=message)
        file = self.storage.open(f"{stream}.logbuffer")
        try:
            return file, read_log_buffer(file, stream)
        except BaseException:
            file.close()
            raise

    def context(self, file: ReadableFile, log: LogBuffer, marks: Mapping[int, int] | None = None) -> LogContext:
        """The log and its current terms. ``marks`` are the receivers' high-water marks by registration id."""
        mark = None
        if log.is_image:
            mark = self._mark(log.registration_id) if marks is None else marks.get(log.registration_id)
        return LogContext(log, tuple(terms_of(log, file, mark)))

    def _mark(self, registration_id: int) -> int | None:
        """An image's current high-water mark. Reads a single counter if its id is known, so that reading all images
        does not read all counters for each."""
        try:
            with self.open_cnc() as cnc:
                counter_id = self._mark_ids.get(registration_id)
                if counter_id is None and registration_id <= self._newest_registration:
                    return None  # registration ids only rise, and an image has its counters from the beginning
                counter = None if counter_id is None else cnc.counter(counter_id)
                mark = high_water_marks([] if counter is None else [counter]).get(registration_id)
                if mark is not None:
                    return mark
                counters = cnc.counters()
        except EverlogError:
            return None
        self._mark_ids = {c.registration_id: c.counter_id for c in counters if c.type_id == RECEIVER_HWM}
        self._newest_registration = max((c.registration_id for c in counters), default=-1)
        return high_water_marks(counters).get(registration_id)

    def end(self, file: ReadableFile, context: LogContext, marks: Mapping[int, int]) -> int:
        """The end of a stream: a publication's tail, an image's high-water mark, or, without counters, the end of the
        image's last frame."""
        log = context.log
        mark = marks.get(log.registration_id, -1)
        if not log.is_image:
            return context.end
        if context.terms and context.terms[-1].start <= mark <= context.end:
            return mark
        for term in reversed(context.terms):
            end = _frames_end(file, LogContext(log, (term,)))
            if end is not None:
                return end
        return context.start


def high_water_marks(counters: list[Counter]) -> dict[int, int]:
    """The highest position that the receiver of each image has seen, by registration id."""
    return {c.registration_id: c.value for c in counters if c.type_id == RECEIVER_HWM}


def channels_of(counters: list[Counter]) -> dict[int, str]:
    """The channel of each publication and image, by registration id; truncated to fit its counter's key."""
    found: dict[int, str] = {}
    for counter in counters:
        if counter.type_id in (PUBLISHER_POSITION, RECEIVER_POSITION) and "channel" in counter.key_fields:
            found[counter.registration_id] = counter.key_fields["channel"]
    return found


def _frames_end(file: ReadableFile, context: LogContext) -> int | None:
    sink = kernel.RowSink([], 1 << 62, 1 << 62)
    scan = LogScan(context, file, sink, _pass, False)
    for _ in scan.run():
        sink.reset()
    return scan.end_position


def _names_in(storage: Storage, folder: str) -> list[str]:
    try:
        return storage.names(folder)
    except EverlogError:
        return []


def _pass(fault: Fault) -> None:
    """Ignore a fault: readers report it."""
