"""Checks a whole store: finds what would stop a starting server, and what the server ignores."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from everlog.core.files.storage import Storage
from everlog.core.report import Fault, Progress, Report, Severity, VerifyPart
from everlog.errors import EverlogError, FileChanged, StoreUnavailable
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.clients import read_clients
from everlog.nats_streaming.format.names import (
    CLIENTS_FILE,
    ROOT_FILES,
    SERVER_FILE,
    SUBS_FILE,
    TRUNCATE_WITNESS,
    channel_bytes,
    channel_problem,
    channel_text,
    is_compaction_file,
)
from everlog.nats_streaming.format.polynomials import fitting_polynomial, polynomial_fault
from everlog.nats_streaming.format.server_info import read_server_info
from everlog.nats_streaming.format.subscriptions import fold, subscription_events
from everlog.nats_streaming.reading.channels import Channel, Reading, open_channel
from everlog.nats_streaming.reading.slices import Patience, SliceState, is_gone
from everlog.nats_streaming.verify.slices import SliceCheck, gap_fault

MAX_FAULTS_PER_FILE = 1000


def verify_store(storage: Storage, reading: Reading, family: str, progress: Progress | None = None) -> Report:
    """Verify a store and return the report. Never raises for damage."""
    check = StoreCheck(storage, reading, Report(storage.root, family), progress)
    check.run()
    return check.report


def channel_folders(storage: Storage) -> list[str]:
    """Return the channels' folders, sorted."""
    return sorted(entry.name for entry in storage.entries() if entry.is_dir)


def plan_parts(storage: Storage, split_bytes: int) -> list[VerifyPart]:
    """Plan the parts: the root's files, then the channels by name, small ones grouped. A part's context is the
    channels' folders."""
    parts = [VerifyPart(0, ())]
    group: list[str] = []
    size = 0
    for folder in channel_folders(storage):
        try:
            byte_count = sum(entry.size for entry in storage.entries(folder))
        except EverlogError:
            byte_count = 0  # the check reports why
        if group and size + byte_count > split_bytes:
            parts.append(VerifyPart(size, tuple(group)))
            group, size = [], 0
        group.append(folder)
        size += byte_count
    if group:
        parts.append(VerifyPart(size, tuple(group)))
    return parts


def verify_part(storage: Storage, reading: Reading, family: str, part: VerifyPart) -> Report:
    """Check one part of ``plan_parts``. A channel that was deleted since then is a fault."""
    check = StoreCheck(storage, reading, Report(storage.root, family), None)
    if not part.context:
        check.check_root()
    else:
        check.load_root()
        check.check_channels(part.context)
    return check.report


def _note(
    code: str, file: str, found: str, expected: str, *, repair: str = "none needed", stream: str | None = None
) -> Fault:
    return Fault(code, file, None, found, expected, "nothing", repair, Severity.NOTE, stream)


class StoreCheck:
    """The state of one verification."""

    def __init__(self, storage: Storage, reading: Reading, report: Report, progress: Progress | None) -> None:
        self._storage = storage
        # Everything on disk is checked, regardless of limits.
        self._reading = replace(reading, include_bak=True, states={}, patience=Patience())
        self.report = report
        self._progress = progress
        self._per_file: Counter[str] = Counter()
        self._clients: frozenset[str] | None = None

    def run(self) -> None:
        """Check the root's files, then channel after channel."""
        self.check_root()
        self.check_channels(channel_folders(self._storage))

    def check_root(self) -> None:
        """Check the server's and the clients' file, and everything else besides the channels."""
        folders, files, strays = 0, set(), []
        for entry in self._storage.entries():
            if entry.is_dir:
                folders += 1
            elif entry.is_file:
                files.add(entry.name)
            else:
                strays.append(entry.name)
        self._polynomial()
        self._guard(SERVER_FILE, None, lambda: self._server(folders > 0 or CLIENTS_FILE in files))
        self._guard(CLIENTS_FILE, None, self._read_clients)
        self._root_files(files, strays)

    def load_root(self) -> None:
        """Read what the channels' checks need from the root's files. Their faults are reported by ``check_root``."""
        faults = list(self.report.faults)
        self._polynomial()
        self._guard(CLIENTS_FILE, None, self._read_clients)
        self.report.faults = faults

    def check_channels(self, folders: Sequence[str]) -> None:
        """Check these channels."""
        for done, folder in enumerate(folders):
            if self._progress is not None:
                self._progress(channel_text(folder), done, len(folders))
            self._guard(folder, channel_text(folder), lambda folder=folder: self._channel(folder))  # type: ignore[misc]
        if self._progress is not None:
            self._progress("", len(folders), len(folders))

    def add(self, fault: Fault) -> None:
        """Add a fault; at most ``MAX_FAULTS_PER_FILE`` for one file."""
        count = self._per_file[fault.file]
        self._per_file[fault.file] = count + 1
        if count < MAX_FAULTS_PER_FILE:
            self.report.add(fault)
        elif count == MAX_FAULTS_PER_FILE:
            found, expected = f"more than {count} faults", f"at most {count}; the others are not listed"
            self.report.add(Fault("more-faults", fault.file, None, found, expected, "see the listed ones"))

    def _guard(self, file: str, stream: str | None, action: Callable[[], None]) -> None:
        """Run a check; report an error that stops it as a fault."""
        try:
            action()
        except FileChanged as error:
            found, expected = str(error.found), str(error.expected)
            self.add(
                Fault(
                    "file-changed",
                    error.where,
                    error.offset,
                    found,
                    expected,
                    "the rest of the file",
                    "verify again",
                    stream=stream,
                )
            )
        except EverlogError as error:
            if error.exit_code != 1 and type(error).__name__ == "MissingDependency":
                raise
            found, expected = str(error.found), str(error.expected)
            self.add(
                Fault(
                    "unreadable-file",
                    file,
                    error.offset,
                    found,
                    expected,
                    "its contents",
                    "make it readable",
                    stream=stream,
                )
            )

    def _polynomial(self) -> None:
        """Detect a wrong polynomial: report it once, and continue with the one that fits."""
        polynomial = fitting_polynomial(self._storage, SERVER_FILE, self._reading.crc)
        if polynomial is not None:
            self.add(polynomial_fault(SERVER_FILE, self._reading.crc.polynomial, polynomial))
            self._reading.crc = Crc32(polynomial)

    def _server(self, has_state: bool) -> None:
        def add(fault: Fault) -> None:
            if fault.code == "server-missing" and not has_state:
                fault = replace(fault, severity=Severity.NOTE, loses="nothing: the store is new")
            self.add(fault)

        read_server_info(self._storage, self._reading.crc, self._reading.check, add)

    def _read_clients(self) -> None:
        self._clients = frozenset(read_clients(self._storage, self._reading.crc, self._reading.check, self.add))

    def _root_files(self, files: set[str], strays: list[str]) -> None:
        for name in sorted(files - ROOT_FILES):
            if is_compaction_file(name):
                self.add(_note("compaction-leftover", name, "a temporary file", "none", repair="remove it"))
            else:
                self.add(_note("stray-file", name, "a file", "nothing of that name"))
        if TRUNCATE_WITNESS in files:
            self.add(
                _note(
                    "truncate-witness",
                    TRUNCATE_WITNESS,
                    "the mark of a start with -file_truncate_bad_eof",
                    "none",
                    repair="a start without that option removes it",
                )
            )
        for name in sorted(strays):
            self.add(_note("stray-file", name, "neither a file nor a folder of the store", "a file or a folder"))

    def _channel(self, folder: str) -> None:
        channel = open_channel(self._reading, folder)
        files = channel.folder
        self.report.stream_count += 1
        if files.is_empty:
            self.add(_note("stray-folder", folder, "no file of a channel", "subs.dat", stream=channel.name))
        elif (problem := channel_problem(channel.name)) is not None:
            self.add(_note("bad-channel-name", folder, problem, "a name that a client can use", stream=channel.name))
        for name in files.bad_names:
            self.add(
                Fault(
                    "bad-slice-name",
                    f"{folder}/{name}",
                    None,
                    "no number",
                    "msgs.NUMBER.dat",
                    "the file's messages",
                    "rename it, or move it away: a server does not start with it",
                    stream=channel.name,
                )
            )
        for name in files.others:
            self.add(
                _note("stray-file", f"{folder}/{name}", "a file or folder", "nothing of that name", stream=channel.name)
            )
        self._guard(f"{folder}/{SUBS_FILE}", channel.name, lambda: self._subscriptions(channel))
        self._slices(channel)

    def _subscriptions(self, channel: Channel) -> None:
        files = channel.folder
        name = f"{files.folder}/{SUBS_FILE}"
        if files.subs_size is None:
            if not files.is_empty:
                self.add(
                    Fault(
                        "subs-missing",
                        name,
                        None,
                        "no file",
                        "subs.dat",
                        "the channel's subscriptions",
                        "restore the file from a copy",
                        stream=channel.name,
                    )
                )
            return
        with self._storage.open(name) as file:
            reading = self._reading
            events = subscription_events(file, name, reading.crc, reading.check, self.add, channel.name)
            subscriptions = fold(events)
        for subscription in subscriptions.values() if self._clients is not None else ():
            if subscription.is_ghost(self._clients or ()):
                state = subscription.state
                found = f"subscription {state.id} of client {state.client_id!r} in group {state.qgroup!r}"
                repair = "a server deletes it at its start"
                self.add(
                    _note("ghost-subscription", name, found, "a registered client", repair=repair, stream=channel.name)
                )

    def _slices(self, channel: Channel) -> None:
        name = channel.name
        key = self._reading.key
        check = SliceCheck(self._reading, name, channel_bytes(channel.folder.folder), self.report, self.add)
        if key is not None:
            check.cipher = key.for_channel(channel_bytes(channel.folder.folder))
        before = len(self.report.faults)
        states = channel.states
        for state in states:
            self._guard(state.slice.dat, name, lambda state=state: self._slice(check, state))  # type: ignore[misc]
        self._encryption(channel, check)
        live = sorted((s for s in states if s.count and not s.slice.is_bak), key=lambda s: s.first)
        self._between(name, live, self.report.faults[before:])

    def _slice(self, check: SliceCheck, state: SliceState) -> None:
        try:
            check.run(state)
        except StoreUnavailable:
            if not is_gone(self._storage, state.slice):
                raise  # otherwise it was deleted since the folder was listed, and is no longer part of the channel

    def _encryption(self, channel: Channel, check: SliceCheck) -> None:
        file, name = channel.folder.folder, channel.name
        if check.closed and not check.opened:
            found = f"a key that decrypts none of {len(check.closed)} messages that look encrypted"
            self.add(
                Fault(
                    "wrong-key",
                    file,
                    None,
                    found,
                    "the key that the server was started with",
                    "these messages",
                    "give the right key",
                    stream=name,
                )
            )
            return
        for fault in check.closed:
            self.add(fault)
        if check.sampled and check.sealed == check.sampled:
            self.add(
                _note(
                    "encrypted",
                    file,
                    f"{check.sealed} of {check.sampled} sampled messages look encrypted",
                    "a key",
                    repair="give the key",
                    stream=name,
                )
            )

    def _between(self, stream: str, states: list[SliceState], faults: list[Fault]) -> None:
        """Report sequences that are missing between slices, or in two of them, unless other faults explain a gap."""
        explained = sorted(int(f.address) for f in faults if f.address is not None and f.severity is Severity.FAULT)
        for a, b in itertools.pairwise(states):
            if b.first <= a.last:
                found = f"sequence {b.first}, which {a.slice.dat} has too"
                self.add(
                    Fault(
                        "slice-overlap",
                        b.slice.dat,
                        None,
                        found,
                        f"above {a.last}",
                        "nothing: the slice with the higher number counts",
                        "remove the slice that does not belong here",
                        stream=stream,
                        address=str(b.first),
                    )
                )
            elif b.first > a.last + 1 and bisect_right(explained, a.last) == bisect_left(explained, b.first):
                self.add(gap_fault(b.slice.dat, None, stream, a.last + 1, b.first))
