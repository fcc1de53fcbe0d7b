"""``everlog jlogtail``: prints a journal's messages as they are written.

It is not a subscriber: it creates no file and holds no segment. A segment that every subscriber is done with may be
deleted before its last messages are printed; a warning reports that.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

import click

from everlog.cli.faults import FaultPrinter
from everlog.cli.jlogctl.arguments import open_journal
from everlog.cli.records import JsonLines
from everlog.cli.text import print_error
from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, pick
from everlog.core.derived import derive
from everlog.core.files.storage import LocalStorage, ReadableFile, Storage
from everlog.core.files.writable import LocalWritableStorage, WritableFile, WritableStorage
from everlog.core.store import Level, ScanRequest
from everlog.errors import UsageError, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.framing import PLAIN
from everlog.jlog.format.layouts import JlogMetastore
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT, read_metastore
from everlog.jlog.format.names import MAX_LOG, parse_segment_name, segment_name
from everlog.jlog.options import JlogOptions
from everlog.jlog.reading.journal import COLUMNS, LOG, MARKER, Journal, Walk
from everlog.jlog.store import JlogStore
from everlog.jlog.subscribing.backoff import Backoff
from everlog.jlog.subscribing.cursor import Cursor, Request
from everlog.jlog.subscribing.subscriptions import BEGINNING, END, find_beginning, find_end
from everlog.jlog.writing.metastore_file import MetastoreFile

EMPTY = b"... empty message ...\n"
"""What the original prints for an empty message."""
TAIL_COLUMNS = tuple(column for column in COLUMNS if column.name == "payload")


@click.command
@click.argument("given_path", metavar="PATH", required=False)
@click.option("-j", "--journal", metavar="PATH", help="The journal's folder; another way to give PATH.")
@click.option("--from", "start", metavar="ADDRESS", help="Start at this address, at 'beginning' or at 'end' (default).")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Start with the last N messages.")
@click.option("--no-follow", is_flag=True, help="With --from or -n: stop at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, as read --json does.")
def jlogtail(
    given_path: str | None, journal: str | None, start: str | None, lines: int | None, no_follow: bool, as_json: bool
) -> int:
    """Print new messages of the JLog journal at PATH as they are written, until interrupted.

    Payloads are printed unchanged, each on a line of its own. Nothing in the journal's folder changes, and no segment
    is held.
    """
    path = _one_path(given_path, journal)
    if start is not None and lines is not None:
        raise UsageError("--from", message="--from and -n exclude each other")
    if no_follow and start is None and lines is None:
        raise UsageError("--no-follow", message="--no-follow needs --from or -n")
    found = open_journal(path)
    faults = FaultPrinter()
    metastore = ReadOnlyMetastore(found.storage)
    cursor = new_cursor(found.storage, metastore, faults)
    try:
        with closing(cursor):
            cursor.seek(_begin(found, metastore, start, lines))
            write = json_writer(found.storage) if as_json else write_lines
            for batch in batches(cursor, is_following=not no_follow, columns=COLUMNS if as_json else TAIL_COLUMNS):
                write(batch)
                sys.stdout.buffer.flush()
    finally:
        faults.close()
    return faults.exit_code


def _one_path(argument: str | None, option: str | None) -> str:
    if (argument is None) == (option is None):
        raise UsageError(
            "PATH", message="PATH and -j exclude each other" if argument else "give the journal's folder, as PATH or -j"
        )
    return cast(str, argument or option)


class ReadOnlyMetastore:
    """The metastore as a reader needs it: missing or wrong fields are derived from the segments."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._last: int | None = None

    def _find_last(self) -> int:
        """The last segment: listed once; later calls only check for segments after it."""
        last = self._last
        if last is None or not self._storage.exists(segment_name(last)):
            logs = [log for log in map(parse_segment_name, self._storage.names()) if log is not None]
            last = max(logs, default=0)
        while last < MAX_LOG and self._storage.exists(segment_name(last + 1)):
            last += 1
        self._last = last
        return last

    def read(self) -> JlogMetastore:
        """Read the current fields."""
        found = read_metastore(self._storage)
        log = self._find_last() if found.storage_log is None else found.storage_log
        return JlogMetastore.unpack_from(
            JlogMetastore.pack(
                storage_log=log,
                unit_limit=found.unit_limit or DEFAULT_UNIT_LIMIT,
                safety=found.safety or 0,
                magic=PLAIN.magic if found.magic is None else found.magic,
            )
        )


class ReadOnlyStorage:
    """A folder that is not on this machine, in the form that a cursor needs: no file of it is written or locked."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.root = storage.root

    def exists(self, name: str) -> bool:
        """Whether a file of that name exists."""
        return self._storage.exists(name)

    def names(self, folder: str = "") -> list[str]:
        """The names in the folder."""
        return self._storage.names(folder)

    def size(self, name: str) -> int:
        """A file's current size in bytes."""
        return self._storage.size(name)

    def open(self, name: str) -> ReadableFile:
        """Open a file for reading."""
        return self._storage.open(name)

    def read_all(self, name: str) -> bytes:
        """Read a small file whole."""
        return self._storage.read_all(name)

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """Always false: nobody appends in place to a folder that is not local."""
        return False

    def open_writable(self, name: str) -> WritableFile:
        """Raises :class:`WriteFailed`: files that are not local can't be locked."""
        raise WriteFailed(name, message=f"can't open {name} for writing: the store is not a local folder")


def new_cursor(storage: Storage, metastore: ReadOnlyMetastore, faults: FaultPrinter) -> Cursor:
    """A cursor that only reads. For a local folder it also asks the system which processes have a segment open or
    locked. Other folders have no such information, and nobody appends to them in place."""
    is_local = isinstance(storage, LocalStorage)
    return Cursor(
        LocalWritableStorage(storage.root) if is_local else cast(WritableStorage, ReadOnlyStorage(storage)),
        cast(MetastoreFile, metastore),
        faults,
        lambda done, log: None,
        lambda address: print_error(f"note: no such message yet; continuing after {address}"),
    )


def _begin(journal: Journal, metastore: ReadOnlyMetastore, start: str | None, count: int | None) -> Address:
    """The address after which to start. Raises :class:`UsageError` for a text that is not an address."""
    if count:
        return before_last(journal, count)
    if start == BEGINNING:
        return find_beginning(journal.storage, metastore.read())
    if start is None or start == END:
        return find_end(journal.storage, metastore.read())
    address = Address.parse(start)
    return Address.of(address.log, max(0, address.marker - 1))


def before_last(journal: Journal, count: int) -> Address:
    """The address before the last ``count`` messages. Messages are counted by reading, a segment at a time from the
    last one backwards, because numbers may be missing."""
    walk = Walk(journal, ScanRequest(columns=(LOG, MARKER), on_fault=lambda _: None), pre_commit=False)
    found: deque[Address] = deque()
    for segment in reversed(journal.segments):
        if not segment.byte_count:
            continue
        part: deque[Address] = deque(maxlen=min(count - len(found), sys.maxsize))
        for batch in walk.batches([segment.log], None):
            part.extend(map(Address.of, batch.to_list("log"), batch.to_list("marker")))
        found.extendleft(reversed(part))
        if len(found) >= count:
            break
    if not found:
        return find_beginning(journal.storage, ReadOnlyMetastore(journal.storage).read())
    return Address.of(found[0].log, found[0].marker - 1)


def batches(cursor: Cursor, *, is_following: bool, columns: tuple[Any, ...]) -> Iterator[Batch]:
    """The existing messages; then, if ``is_following``, new ones as they arrive."""
    request = Request(columns, MAX_BATCH_ROWS, MAX_BATCH_BYTES)
    backoff = Backoff()
    while True:
        batch = cursor.read(request)
        if batch is not None:
            backoff.reset()
            yield batch
        elif not is_following:
            return
        else:
            time.sleep(backoff.next_delay(time.monotonic()) or 0)


def write_lines(batch: Batch) -> None:
    """Write each payload to stdout, with a line break unless it ends with one."""
    sys.stdout.buffer.write(b"".join(map(line_of, batch.to_list("payload"))))


def line_of(payload: bytes) -> bytes:
    """A message as the original prints it, with its line break."""
    if not payload:
        return EMPTY
    return payload if payload.endswith(b"\n") else payload + b"\n"


def json_writer(storage: Storage) -> Callable[[Batch], None]:
    """A function that writes batches with all columns as ``read --json`` does."""
    store = JlogStore(storage, JlogOptions())
    lines = JsonLines(store, Level.RECORD, payload=True)
    wanted = pick(store.schema(), lines.columns)
    constants = {"store": store.path, "family": store.family, "stream": STREAM}

    def write(batch: Batch) -> None:
        sys.stdout.buffer.write(lines.lines(STREAM, derive(batch, wanted, constants, store.address_columns)))

    return write
