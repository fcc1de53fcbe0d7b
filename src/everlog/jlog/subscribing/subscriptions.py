"""Adds, removes and lists subscribers, and reads and sets their checkpoints.

A subscriber is a file, ``cp.<hex of its name>``, of eight bytes: the last message it has consumed. Files, bytes and
locks are those of the C library, whose processes may use the same journal at the same time.

Adding takes the metastore's lock, as :mod:`everlog.jlog.subscribing.removal` does, so that no segment is removed
between choosing the start and creating the file that protects it. The C library removes segments without a lock, so
adding then checks that the segment still exists. A crash leaves the subscriber or none, never an empty file (with which
the C library may delete needed segments), at worst a ``.everlog-*`` draft, which
:func:`everlog.jlog.subscribing.removal.clean` deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage, locked
from everlog.core.options import check_type
from everlog.errors import CorruptData, NotAStore, SubscriberExists
from everlog.jlog.format.addresses import MARKER_BITS, Address
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.index import read_index
from everlog.jlog.format.layouts import JlogCheckpoint, JlogMetastore
from everlog.jlog.format.names import checkpoint_name, parse_segment_name, printable, segment_name
from everlog.jlog.options import StartPlace
from everlog.jlog.reading.growth import is_locked
from everlog.jlog.reading.journal import SOURCES
from everlog.jlog.reading.recovery import SegmentData, detect_framing
from everlog.jlog.reading.segments import NO_STOP, SegmentReader
from everlog.jlog.writing.checkpoint_file import CheckpointFile, subscriber_name
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of
from everlog.kernel.columns import RowSink

MAX_TRIES = 8
BEGINNING: StartPlace = "beginning"
END: StartPlace = "end"


def find_beginning(storage: Storage, metastore: JlogMetastore) -> Address:
    """Before the first message."""
    logs = [log for log in map(parse_segment_name, storage.names()) if log is not None]
    return Address.of(min(logs, default=metastore.storage_log), 0)


def find_end(storage: Storage, metastore: JlogMetastore) -> Address:
    """At the last whole message."""
    log = metastore.storage_log
    while storage.exists(segment_name(log + 1)) and storage.size(segment_name(log + 1)):
        log += 1  # a power cut lost the metastore's last change
    if not storage.exists(segment_name(log)):
        return Address.of(log, 0)
    with storage.open(segment_name(log)) as file:
        size = file.size()
        preferred = Framing(metastore.magic)
        framing = detect_framing(SegmentData(file, 0, size), 0, preferred) or preferred
        index = read_index(storage, log, size, framing.header_bytes)
        sink = RowSink([("marker", "q", SOURCES["marker"])], MAX_BATCH_ROWS, MAX_BATCH_BYTES)
        reader = SegmentReader(file, log, 0, size, framing, sink, lambda _: None, is_live=True)
        reader.load_index, reader.is_locked = lambda: index, lambda: is_locked(storage, log)
        reader.first = index.good if index.is_sound and index.good else NO_STOP
        for _ in reader.fill():
            sink.take()
        return Address.of(log, reader.marker - 1)


def add_subscriber(
    journal: JournalPath,
    name: str | bytes,
    *,
    at: StartPlace | str | int = BEGINNING,
    copy_of: str | bytes | None = None,
) -> Address:
    """Add a subscriber and return its start; its first message is the one after that.

    ``at``: ``"beginning"`` (the first message present), ``"end"`` (the next one written), or an address as number or
    text. ``copy_of``: start where that subscriber is, whatever ``at`` says. Raises :class:`SubscriberExists`,
    :class:`UnknownSubscriber`, :class:`UsageError`, :class:`WriteFailed`, :class:`NotAStore` and :class:`CorruptData`.
    """
    storage = storage_of(journal)
    with closing(MetastoreFile(storage)) as metastore, metastore.locked() as values:
        return add_locked(storage, metastore, subscriber_name(name), place_finder(storage, values, at, copy_of))


def place_finder(
    storage: WritableStorage, values: JlogMetastore, at: str | int, copy_of: str | bytes | None = None
) -> Callable[[], Address]:
    """A function that returns where a subscriber starts. Raises :class:`UsageError`."""
    if copy_of is not None:
        return lambda: read_checkpoint(storage, copy_of)
    if at == BEGINNING:
        return lambda: find_beginning(storage, values)
    if at == END:
        return lambda: find_end(storage, values)
    address = as_address(at)
    return lambda: address


def add_locked(
    storage: WritableStorage, metastore: MetastoreFile, name: str, find_place: Callable[[], Address]
) -> Address:
    """Like :func:`add_subscriber`, under the metastore's lock."""
    sync = metastore.read().safety == SAFE
    address = find_place()
    was_there = storage.exists(segment_name(address.log))
    data = JlogCheckpoint.struct.pack(address.log, address.marker)
    if not storage.publish(checkpoint_name(name), data, replace=False, mode=metastore.mode, sync=sync):
        raise SubscriberExists(
            storage.root, found=f"subscriber {printable(name)!r} already exists", hint="jlogctl -l lists them"
        )
    for _ in range(MAX_TRIES):
        if not was_there or storage.exists(segment_name(address.log)):
            break
        # A C library process listed the subscribers before this one was added, and deleted the segment.
        moved = find_place()
        if moved == address:
            break
        address = moved
        with closing(CheckpointFile(storage, name)) as file:
            file.write(address, sync=sync)
    return address


def remove_subscriber(journal: JournalPath, name: str | bytes) -> bool:
    """Remove a subscriber; False if it did not exist. Segments that only it kept are removed when another subscriber
    moves into a newer segment, or by :func:`everlog.jlog.subscribing.removal.clean`. Raises :class:`WriteFailed` and
    :class:`UsageError`."""
    return storage_of(journal).remove(checkpoint_name(subscriber_name(name)))


def list_subscribers(journal: JournalPath) -> list[Checkpoint]:
    """All subscribers, by name. Includes files that are unreadable or don't have 8 bytes."""
    storage = storage_of(journal)
    return read_checkpoints(storage, storage.names())


def read_checkpoint(journal: JournalPath, name: str | bytes) -> Address:
    """The last message that a subscriber has consumed. Raises :class:`UnknownSubscriber` and :class:`CorruptData`."""
    with closing(CheckpointFile(storage_of(journal), name)) as file:
        return file.read()


def write_checkpoint(journal: JournalPath, name: str | bytes, address: str | int, *, sync: bool = False) -> None:
    """Set a subscriber's checkpoint, forwards or backwards. Deletes nothing. Raises :class:`UnknownSubscriber`,
    :class:`WriteFailed` and :class:`UsageError`."""
    storage, place = storage_of(journal), as_address(address)
    with closing(CheckpointFile(storage, name)) as file, removal_locked_out(storage):
        file.write(place, sync=sync)


@contextmanager
def removal_locked_out(storage: WritableStorage) -> Iterator[None]:
    """Context manager for moving a checkpoint back: keeps segments from being removed. With a damaged metastore everlog
    removes nothing anyway."""
    try:
        metastore = MetastoreFile(storage)
    except (NotAStore, CorruptData):
        yield
        return
    with closing(metastore), locked(metastore.file):
        yield


def as_address(address: str | int) -> Address:
    """The address for a number or text. Raises :class:`UsageError`."""
    if isinstance(address, str):
        return Address.parse(address)
    check_type("address", address, int, "a number or text")
    return Address.of(*divmod(address, 1 << MARKER_BITS))
