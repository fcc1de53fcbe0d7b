"""Opens a store for writing: creates what is missing, takes the lock, opens channels."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from everlog.core.files.writable import LocalWritableStorage, WritableStorage, make_folder
from everlog.core.options import fill
from everlog.errors import Closed, UsageError, WrongType
from everlog.nats_streaming.writing.channel_writer import ChannelWriter
from everlog.nats_streaming.writing.options import DEFAULT_CLUSTER_ID, WriteOptions
from everlog.nats_streaming.writing.store_folder import (
    check_folder,
    locked_store,
    prepare_channel,
    prepare_store,
    remove_drafts,
)

StorePath = str | os.PathLike[str] | WritableStorage


class StoreWriter:
    """A file store, open for writing by this process alone; for programs that write several channels.

    ``folder`` is created if it is missing. The keyword arguments are those of
    :class:`~everlog.nats_streaming.writing.options.WriteOptions` and hold for every channel. Raises
    :class:`StoreUnavailable` if a server or another writer has the store open, :class:`NotAStore` for a folder with
    other things in it, :class:`UsageError` for a wrong option or another cluster ID, :class:`CorruptData` for a damaged
    ``server.dat`` or another CRC polynomial, and :class:`WriteFailed`."""

    def __init__(self, folder: StorePath, **options: Any) -> None:
        self.options = fill(WriteOptions, options)
        self._storage = _storage_of(folder)
        self._lock = threading.Lock()
        self._channels: dict[str, ChannelWriter] = {}
        self._is_closed = False
        with contextlib.ExitStack() as held:
            check_folder(self._storage)
            held.enter_context(locked_store(self._storage))
            remove_drafts(self._storage)
            crc = self.options.new_crc()
            info = prepare_store(self._storage, crc, self.options.cluster_id, DEFAULT_CLUSTER_ID)
            self._held = held.pop_all()
        self.cluster_id = info.cluster_id

    def open_channel(self, channel: str) -> ChannelWriter:
        """Open a channel for appending; it is created if it is missing. A torn end that a killed writer left is cut
        off. Limits are applied: smaller limits than before delete messages.

        Raises :class:`UsageError` for a name that the server refuses, and if the channel is open already;
        :class:`CorruptData` if damage is followed by whole messages; :class:`WriteFailed`."""
        return self._open(channel, lambda: None)

    def _open(self, channel: str, after_close: Callable[[], None]) -> ChannelWriter:
        def closed() -> None:
            self._channels.pop(channel, None)
            after_close()

        with self._lock:
            if self._is_closed:
                raise Closed("the store's writer")
            if channel in self._channels:
                raise UsageError("channel", message=f"channel {channel!r} is open for writing already")
            prepare_channel(self._storage, channel)
            writer = ChannelWriter(self._storage, channel, self.options, closed)
            self._channels[channel] = writer
            return writer

    def close(self) -> None:
        """Close all channels and release the lock. A second call does nothing. Raises :class:`WriteFailed` if a sync
        fails; all is closed then, too."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            with self._held:
                for writer in list(self._channels.values()):
                    self._held.callback(writer.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_channel(folder: StorePath, channel: str, **options: Any) -> ChannelWriter:
    """Open one channel of a file store for appending; store and channel are created if they are missing. Closing the
    writer releases the store.

    >>> from everlog import nats_streaming
    >>> with nats_streaming.open_channel("/var/lib/stan", "orders") as orders:    # doctest: +SKIP
    ...     orders.append(b"first")
    1

    Options and errors are those of :class:`StoreWriter` and :meth:`StoreWriter.open_channel`."""
    store = StoreWriter(folder, **options)
    try:
        return store._open(channel, store.close)
    except BaseException:
        store.close()
        raise


def _storage_of(folder: StorePath) -> WritableStorage:
    if isinstance(folder, str | os.PathLike):
        make_folder(os.fspath(folder))
        return LocalWritableStorage(folder)
    if not hasattr(folder, "open_writable"):
        raise WrongType("folder", found=type(folder).__name__, expected="a path or a writable storage")
    return folder
