"""The store's folder: its lock, ``server.dat`` and ``clients.dat``, and the folders of channels.

A new store is created in this order: ``server.dat``, ``clients.dat``; a channel: its folder, ``subs.dat``. Each file
appears with its content at once, so that a server can start on what a crash leaves. Source: ``stores/filestore.go``
(Init, GetExclusiveLock, CreateChannel), ``server/server.go`` for the subjects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from everlog.core.files.writable import DRAFT_PREFIX, WritableFile, WritableStorage
from everlog.core.report import Fault
from everlog.errors import CorruptData, NotAStore, StoreUnavailable, UsageError
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.encoding import VERSION_WORD, encode_record
from everlog.nats_streaming.format.messages import ServerInfo
from everlog.nats_streaming.format.names import (
    CLIENTS_FILE,
    LOCK_FILE,
    ROOT_FILES,
    SERVER_FILE,
    SUBS_FILE,
    channel_problem,
    is_compaction_file,
    parse_slice_name,
)
from everlog.nats_streaming.format.polynomials import fitting_polynomial, polynomial_fault
from everlog.nats_streaming.format.server_info import read_server_info


@contextlib.contextmanager
def locked_store(storage: WritableStorage) -> Iterator[None]:
    """Hold the store's lock, that of a fault tolerant server. Raises :class:`StoreUnavailable` if another process has
    it, or if a server without fault tolerance, which takes no lock, has its files open."""
    lock: WritableFile = storage.open_writable(LOCK_FILE, create=True)
    with contextlib.closing(lock):
        if not lock.lock(wait=False):
            raise _in_use(storage, f"another process holds {LOCK_FILE}")
        if storage.exists(CLIENTS_FILE) and storage.is_open_for_writing(CLIENTS_FILE):
            raise _in_use(storage, f"another process has {CLIENTS_FILE} open for writing")
        yield


def _in_use(storage: WritableStorage, found: str) -> StoreUnavailable:
    message = f"{storage.root} is in use: {found}"
    hint = "stop the server or the other writer first"
    return StoreUnavailable(
        storage.root, found=found, expected="a store that nobody writes", hint=hint, message=message
    )


def check_folder(storage: WritableStorage) -> None:
    """Raise :class:`NotAStore` for a folder without ``server.dat`` that holds anything else than channels: every folder
    in a store is a channel."""
    if storage.exists(SERVER_FILE):
        return
    for entry in storage.entries():
        name = entry.name
        if entry.is_dir:
            inside = storage.names(name)
            is_ours = not inside or any(n == SUBS_FILE or parse_slice_name(n) is not None for n in inside)
        else:
            is_ours = name in ROOT_FILES or name.startswith(DRAFT_PREFIX) or is_compaction_file(name)
        if not is_ours:
            raise NotAStore(storage.root, found=name, expected="an empty folder or a NATS Streaming file store")


def prepare_store(storage: WritableStorage, crc: Crc32, cluster_id: str | None, default: str) -> ServerInfo:
    """Create ``server.dat`` and ``clients.dat`` if they are missing, and return the server's information.

    A new store gets the cluster ID ``cluster_id`` or ``default``. Raises :class:`UsageError` if an existing store has
    another ID, and :class:`CorruptData` for a damaged ``server.dat`` or another polynomial; then nothing is changed."""
    faults: list[Fault] = []
    info = read_server_info(storage, crc, True, faults.append)
    for fault in faults:
        if fault.code != "server-missing":
            if (polynomial := fitting_polynomial(storage, SERVER_FILE, crc)) is not None:
                fault = polynomial_fault(SERVER_FILE, crc.polynomial, polynomial)
            raise CorruptData(
                SERVER_FILE, offset=fault.offset, found=fault.found, expected=fault.expected, hint=fault.repair
            )
    if info is not None and cluster_id is not None and info.cluster_id != cluster_id:
        message = f'cluster ID "{cluster_id}" does not match recovered value of "{info.cluster_id}"'
        raise UsageError("cluster_id", found=cluster_id, expected=info.cluster_id, message=message)
    if info is None:
        info = server_info(cluster_id or default)
        storage.publish(SERVER_FILE, VERSION_WORD + encode_record(info.encode(), crc), replace=True)
    storage.publish(CLIENTS_FILE, VERSION_WORD, replace=False)
    storage.sync_folder()
    return info


def server_info(cluster_id: str) -> ServerInfo:
    """The server's information as version 0.25 writes it."""
    return ServerInfo(
        cluster_id=cluster_id,
        discovery=f"_STAN.discover.{cluster_id}",
        publish=f"_STAN.pub.{cluster_id}",
        subscribe=f"_STAN.sub.{cluster_id}",
        unsubscribe=f"_STAN.unsub.{cluster_id}",
        close=f"_STAN.close.{cluster_id}",
        sub_close=f"_STAN.subclose.{cluster_id}",
        acks_subs=f"_STAN.ack.{cluster_id}",
    )


def remove_drafts(storage: WritableStorage) -> None:
    """Delete the drafts that a killed writer has left."""
    for name in [entry.name for entry in storage.entries() if entry.is_file and entry.name.startswith(DRAFT_PREFIX)]:
        storage.remove(name)


def prepare_channel(storage: WritableStorage, channel: str) -> None:
    """Create a channel's folder and ``subs.dat`` if they are missing. Raises :class:`UsageError` for a name that the
    server refuses, also for one that differs from another channel's by letter case only."""
    problem = "a slash or a NUL" if "/" in channel or "\0" in channel else channel_problem(channel)
    if problem is not None:
        message = f"channel name {channel!r} has {problem}"
        raise UsageError("channel", found=repr(channel), expected="names between single dots", message=message)
    if not storage.exists(channel):
        for entry in storage.entries():
            if entry.is_dir and entry.name.lower() == channel.lower():
                message = f"channel {channel!r} differs from the existing {entry.name!r} by letter case only"
                raise UsageError("channel", found=repr(channel), expected=repr(entry.name), message=message)
        storage.make_folder(channel)
    storage.publish(f"{channel}/{SUBS_FILE}", VERSION_WORD, replace=False, sync=True)
