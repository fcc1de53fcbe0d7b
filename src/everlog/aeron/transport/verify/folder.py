"""Checks a media driver's folder: ``cnc.dat``, the loss report, each log buffer and its frames, and the consistency of
counters and log buffers. Changes nothing.

The driver may be running: counters are read before log buffers, whose tails only grow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from everlog.aeron.transport.folder.driver import DriverFolder
from everlog.aeron.transport.folder.faults import fault
from everlog.aeron.transport.folder.log_scan import LogScan
from everlog.aeron.transport.format.cnc_file import CLOSED, CNC_NAME, CncFile
from everlog.aeron.transport.format.counters import PUBLISHER_POSITION, RECEIVER_HWM, SENDER_POSITION, Counter
from everlog.aeron.transport.format.log_buffers import FOLDERS, IMAGES, PUBLICATIONS, SUFFIX, LogBuffer, parse_name
from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME, load_losses
from everlog.aeron.transport.verify.cnc import check_cnc
from everlog.aeron.transport.verify.logs import check_metadata
from everlog.core.files.storage import Entry
from everlog.core.files.writable import DRAFT_PREFIX
from everlog.core.report import Progress, Report
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UnsupportedVersion
from everlog.kernel import columns as kernel
from everlog.time_units import NS_PER_MS

STEP_ROWS = 1 << 20
NO_COUNTERS = "counters, errors, and the driver's state"


@dataclass(slots=True)
class Verification:
    """One verification of one folder."""

    folder: DriverFolder
    report: Report
    progress: Progress | None
    counters: list[Counter] = field(default_factory=list)
    by_registration: dict[int, list[Counter]] = field(default_factory=dict)
    """The counters by registration id, as there may be thousands of log buffers."""
    knows_counters: bool = False
    """Whether the counters could be read, so that a log buffer without any is reported."""
    is_closed: bool = False
    """Whether the driver was closed properly."""

    def run(self) -> None:
        """Run all checks."""
        self._check_cnc()
        self._check_losses()
        logs = self._list_logs()
        total = sum(entry.size for _, entry in logs)
        done = 0
        for name, entry in logs:
            if self.progress is not None:
                self.progress(f"log buffer {name}", done, total)
            self._check_log(name)
            done += entry.size
        self._check_missing({name for name, _ in logs})
        if self.progress is not None:
            self.progress("log buffers", done, total)

    # cnc.dat

    def _check_cnc(self) -> None:
        add, storage = self.report.add, self.folder.storage
        if not storage.exists(CNC_NAME):
            add(fault("cnc-missing", CNC_NAME, None, "no file", "cnc.dat", NO_COUNTERS))
            return
        try:
            with CncFile.open(storage) as cnc:
                self._check_open_cnc(cnc)
        except EverlogError as error:
            self._cnc_unreadable(error)

    def _cnc_unreadable(self, error: EverlogError) -> None:
        code, note = "cnc-field", False
        if isinstance(error, UnsupportedVersion):
            code = "cnc-version"
        elif isinstance(error, StoreUnavailable):
            # Version 0 comes with its offset; an error of the system does not.
            code, note = ("cnc-not-ready", True) if error.offset == 0 else ("unreadable", False)
        elif error.offset == 0:
            code = "cnc-short"
        found, expected = error.found or str(error), error.expected or "cnc.dat"
        self.report.add(fault(code, CNC_NAME, error.offset, found, expected, NO_COUNTERS, note=note))

    def _check_open_cnc(self, cnc: CncFile) -> None:
        for problem in check_cnc(cnc):
            self.report.add(problem)
        if not cnc.is_live(time.time_ns() // NS_PER_MS):
            heartbeat = cnc.heartbeat_ms()
            found = "a closed driver" if heartbeat == CLOSED else f"last heartbeat at {heartbeat} ms"
            expected = "a heartbeat within the timeout, if a driver should run"
            self.report.add(fault("driver-gone", CNC_NAME, None, found, expected, note=True))
        self.is_closed = cnc.heartbeat_ms() == CLOSED
        self.counters = cnc.counters()
        for counter in self.counters:
            self.by_registration.setdefault(counter.registration_id, []).append(counter)
        self.knows_counters = cnc.problem is None

    def _check_losses(self) -> None:
        add = self.report.add
        try:
            losses = load_losses(self.folder.storage)
        except EverlogError as error:
            found = error.found or str(error)
            add(fault("unreadable", LOSS_REPORT_NAME, None, found, "a readable file", "the report of lost data"))
            return
        if losses is None:
            add(fault("loss-report-missing", LOSS_REPORT_NAME, None, "no file", "a loss report", note=True))
        elif losses[1] is not None:
            problem, lost = losses[1], "this entry and those after it"
            add(fault("loss-entry", LOSS_REPORT_NAME, problem.offset, problem.found, problem.expected, lost))

    # Log buffers

    def _list_logs(self) -> list[tuple[str, Entry]]:
        found: list[tuple[str, Entry]] = []
        for folder in FOLDERS:
            if not self.folder.storage.exists(folder):
                continue
            try:
                entries = sorted(self.folder.storage.entries(folder), key=lambda e: (len(e.name), e.name))
            except EverlogError as error:
                self.report.add(fault("unreadable", folder, None, error.found or str(error), "a folder", "its logs"))
                continue
            for entry in entries:
                registration_id = parse_name(entry.name)
                if registration_id is not None:
                    found.append((f"{folder}/{registration_id}", entry))
                elif not entry.name.startswith(DRAFT_PREFIX):
                    expected = f"REGISTRATION_ID{SUFFIX}"
                    name = f"{folder}/{entry.name}"
                    found_name = f"the name {entry.name!r}"
                    self.report.add(fault("log-buffer-name", name, None, found_name, expected, "its frames"))
        return found

    def _check_log(self, name: str) -> None:
        self.report.stream_count += 1
        try:
            file, log = self.folder.open_log(name)
            with file:
                self.report.segment_count += 1
                for problem in check_metadata(log):
                    self.report.add(problem)
                own = self.by_registration.get(log.registration_id, [])
                marks = {c.registration_id: c.value for c in own if c.type_id == RECEIVER_HWM}
                context = self.folder.context(file, log, marks)
                self._check_positions(log, context.end)
                sink = kernel.RowSink([], STEP_ROWS, 1 << 62)
                scan = LogScan(context, file, sink, self.report.add, True)
                for _ in scan.run():
                    self.report.record_count += sink.row_count
                    sink.reset()
                self.report.byte_count += log.file_length
        except CorruptData as error:
            code = "log-buffer-size" if error.offset == 0 else "log-buffer-field"
            found, expected = error.found or str(error), error.expected or "a log buffer"
            self.report.add(fault(code, name + SUFFIX, error.offset, found, expected, "its frames", stream=name))
        except EverlogError as error:
            found = error.found or str(error)
            lost = "the log buffer"
            self.report.add(fault("unreadable", name + SUFFIX, None, found, "a readable file", lost, stream=name))

    def _check_positions(self, log: LogBuffer, end: int) -> None:
        """Compare counters with a publication's tail, and find a log buffer without counters."""
        own = self.by_registration.get(log.registration_id, [])
        known = {c.type_id for c in own} & {PUBLISHER_POSITION, RECEIVER_HWM}
        if self.knows_counters and not known:
            found, expected = "no counter of its position", "a position counter"
            code = "log-buffer-unknown"
            self.report.add(fault(code, log.file_name, None, found, expected, note=True, stream=log.name))
        if log.is_image:
            return
        for counter in own:
            if counter.type_id in (PUBLISHER_POSITION, SENDER_POSITION) and counter.value > end:
                found, expected = f"{counter.label} {counter.value}", f"at most {end}, the log's tail"
                offset = log.metadata_offset
                code, lost = "position-beyond-tail", "the data between the two positions"
                self.report.add(fault(code, log.file_name, offset, found, expected, lost, stream=log.name))

    def _check_missing(self, names: set[str]) -> None:
        if self.is_closed:
            return  # a closing driver deletes log buffers, but not the counters
        folders = {PUBLISHER_POSITION: PUBLICATIONS, RECEIVER_HWM: IMAGES}
        still = {(c.counter_id, c.registration_id) for c in self.folder.counters()}
        for counter in (c for c in self.counters if (c.counter_id, c.registration_id) in still):
            folder = folders.get(counter.type_id)
            name = f"{folder}/{counter.registration_id}"
            if folder is None or name in names:
                continue
            found, expected = "no file", f"the log buffer of counter {counter.counter_id}, {counter.label}"
            self.report.add(fault("log-buffer-missing", name + SUFFIX, None, found, expected, "its frames"))
