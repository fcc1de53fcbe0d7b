"""``everlog jlogtail``: a journal's messages on stdout, as they are written.

It is no subscriber: no file is made, no segment is held back. A segment that every subscriber is done with may be
deleted before its last messages were printed; then a warning says so.
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
"""What the original prints for a message without a byte."""
TAIL_COLUMNS = tuple(column for column in COLUMNS if column.name == "payload")


@click.command
@click.argument("given_path", metavar="PATH", required=False)
@click.option("-j", "--journal", metavar="PATH", help="The journal's folder, another way to say PATH.")
@click.option("--from", "start", metavar="ADDRESS", help="Begin at this message, at beginning or at end (the default).")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Begin with the last N messages.")
@click.option("--no-follow", is_flag=True, help="Stop at the end; with --from or -n.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as read --json prints it.")
def jlogtail(
    given_path: str | None, journal: str | None, start: str | None, lines: int | None, no_follow: bool, as_json: bool
) -> int:
    """Print the messages of the JLog journal at PATH as they are written, from the end on, until interrupted.

    Payloads as they are, each on a line of its own. Nothing in the journal's folder changes, and nothing is held back.
    """
    path = _one_path(given_path, journal)
    if start is not None and lines is not None:
        raise UsageError("--from and -n", expected="one of them")
    if no_follow and start is None and lines is None:
        raise UsageError("--no-follow", expected="with --from or -n")
    found = open_journal(path)
    faults = FaultPrinter()
    metastore = SeenMetastore(found.storage)
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
        raise UsageError("PATH", found="two" if argument else "none", expected="one journal, as PATH or with -j")
    return cast(str, argument or option)


class SeenMetastore:
    """The metastore for those who only read: what it does not say, or says wrongly, is told from the segments."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._last: int | None = None

    def _find_last(self) -> int:
        """The last segment: listed once, then looked for behind the one that was the last."""
        last = self._last
        if last is None or not self._storage.exists(segment_name(last)):
            logs = [log for log in map(parse_segment_name, self._storage.names()) if log is not None]
            last = max(logs, default=0)
        while last < MAX_LOG and self._storage.exists(segment_name(last + 1)):
            last += 1
        self._last = last
        return last

    def read(self) -> JlogMetastore:
        """The fields, now."""
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


class QuietStorage:
    """A folder that is not on this machine, as a cursor asks for it: no file of it is written on, or locked."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.root = storage.root

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self._storage.exists(name)

    def names(self, folder: str = "") -> list[str]:
        """Names in the folder."""
        return self._storage.names(folder)

    def size(self, name: str) -> int:
        """Bytes of a file, now."""
        return self._storage.size(name)

    def open(self, name: str) -> ReadableFile:
        """A file, to be read."""
        return self._storage.open(name)

    def read_all(self, name: str) -> bytes:
        """A small file's content."""
        return self._storage.read_all(name)

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """See :class:`WritableStorage`."""
        return False

    def open_writable(self, name: str) -> WritableFile:
        """ArchiveError with :class:`WriteFailed`: who can't write has no lock to ask for."""
        raise WriteFailed(name, found="a store that is not on this machine", expected="a local folder")


def new_cursor(storage: Storage, metastore: SeenMetastore, faults: FaultPrinter) -> Cursor:
    """A cursor that only reads. Of a local folder it asks the system, too, who has a segment open or locked; of another
    one nobody can tell, and there nobody appends in place."""
    is_local = isinstance(storage, LocalStorage)
    return Cursor(
        LocalWritableStorage(storage.root) if is_local else cast(WritableStorage, QuietStorage(storage)),
        cast(MetastoreFile, metastore),
        faults,
        lambda done, log: None,
        lambda address: print_error(f"note: there is no such message yet; going on behind {address}"),
    )


def _begin(journal: Journal, metastore: SeenMetastore, start: str | None, count: int | None) -> Address:
    """The address to go on behind. Raises :class:`UsageError`."""
    if count:
        return before_last(journal, count)
    if start == BEGINNING:
        return find_beginning(journal.storage, metastore.read())
    if start is None or start == END:
        return find_end(journal.storage, metastore.read())
    address = Address.parse(start)
    return Address.of(address.log, max(0, address.marker - 1))


def before_last(journal: Journal, count: int) -> Address:
    """Before the last ``count`` messages there are. Counted by reading, a segment at a time from the last one on, for
    numbers may be missing."""
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
        return find_beginning(journal.storage, SeenMetastore(journal.storage).read())
    return Address.of(found[0].log, found[0].marker - 1)


def batches(cursor: Cursor, *, is_following: bool, columns: tuple[Any, ...]) -> Iterator[Batch]:
    """What there is, and then what comes."""
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
    """Each payload, and a line break unless it ends with one."""
    sys.stdout.buffer.write(b"".join(map(line_of, batch.to_list("payload"))))


def line_of(payload: bytes) -> bytes:
    """A message as the original prints it."""
    if not payload:
        return EMPTY
    return payload if payload.endswith(b"\n") else payload + b"\n"


def json_writer(storage: Storage) -> Callable[[Batch], None]:
    """What writes batches with all columns as ``read --json`` does."""
    store = JlogStore(storage, JlogOptions())
    lines = JsonLines(store, Level.RECORD, payload=True)
    wanted = pick(store.schema(), lines.columns)
    constants = {"store": store.path, "family": store.family, "stream": STREAM}

    def write(batch: Batch) -> None:
        sys.stdout.buffer.write(lines.lines(STREAM, derive(batch, wanted, constants, store.address_columns)))

    return write
