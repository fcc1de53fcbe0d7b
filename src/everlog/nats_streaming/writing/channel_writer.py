"""Appends messages to one channel."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from everlog.core.files.writable import WritableStorage
from everlog.errors import Closed, CorruptData, LimitExceeded, StoreUnavailable, WriteFailed, WrongType
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.encoding import MessageEncoder, encode_index_record, encode_record
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, RECORD_OVERHEAD
from everlog.nats_streaming.format.names import channel_bytes
from everlog.nats_streaming.reading.slices import Patience, list_channel
from everlog.nats_streaming.writing.channel_state import ChannelState
from everlog.nats_streaming.writing.index_entries import FirstEntries
from everlog.nats_streaming.writing.options import WriteOptions
from everlog.nats_streaming.writing.recovery import SliceRecovery
from everlog.nats_streaming.writing.slice_writer import SliceWriter, create_slice

BUFFER_BYTES = 2 << 20
"""``append_many`` writes when so many bytes are encoded; the original's ``file_buffer_size``."""
MAX_PAYLOAD_BYTES = MAX_RECORD_BYTES - (64 << 10)
"""Largest payload; a server's ``max_payload`` is 1 MiB unless it is raised."""


class ChannelWriter:
    """Appends messages to a channel. Thread-safe. Use :func:`everlog.nats_streaming.open_channel` to get one.

    Sequences count from 1 and have no gaps. Timestamps are the system's time in nanoseconds since 1970, but never below
    that of the message before. The channel's limits drop the oldest messages, after each append and when the channel is
    opened; see :class:`~everlog.nats_streaming.writing.options.WriteOptions`. Every use after :meth:`close` raises
    :class:`Closed`.

    Writes the files as the original does. Source: ``stores/filestore.go`` (Store, flush, enforceLimits)."""

    def __init__(
        self,
        storage: WritableStorage,
        channel: str,
        options: WriteOptions,
        on_close: Callable[[], None],
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.channel = channel
        self._storage = storage
        self._is_synced = options.is_synced
        self._clock_ns = clock_ns
        self._on_close = on_close
        self._lock = threading.Lock()
        self._is_closed = False
        self._crc: Crc32 = options.new_crc()
        self._encoder = MessageEncoder(channel_bytes(channel))
        self._entries = FirstEntries(storage)
        self._names_synced = True
        self._slice: SliceWriter | None = None
        self._state = self._recover(options)
        if self._state.slices:
            self._slice = SliceWriter(storage, self._state.slices[-1])
        try:
            self._apply_limits()
        except BaseException:
            self._close_slice()
            raise

    def _recover(self, options: WriteOptions) -> ChannelState:
        folder = list_channel(self._storage, self.channel, Patience(0))
        if folder.bad_names:
            name = f"{self.channel}/{folder.bad_names[0]}"
            raise CorruptData(name, found="a slice without a number", expected="msgs.N.dat")
        recovery = SliceRecovery(self._storage, self.channel, self._crc)
        pieces = [piece for piece in folder.slices if not piece.is_bak]
        totals = [recovery.recover(piece, is_last=piece is pieces[-1]) for piece in pieces]
        filled = [t for t in totals if t.count]
        for orphan in folder.orphan_indexes:
            # Who was killed while deleting the first slice leaves its index. Others may tell of a lost slice.
            if filled and orphan.number < filled[0].number and not orphan.is_bak:
                self._storage.remove(orphan.idx)
        return ChannelState(filled, options.limits(), options.slice_limits())

    # What is stored

    @property
    def first_sequence(self) -> int:
        """The sequence of the oldest message that is not dropped; one above :attr:`last_sequence` if there is none."""
        return self._state.first

    @property
    def last_sequence(self) -> int:
        """The sequence of the newest message, also if it was dropped; 0 if there was none yet."""
        return self._state.last

    @property
    def message_count(self) -> int:
        """How many messages the limits keep."""
        return self._state.count

    @property
    def byte_count(self) -> int:
        """The bytes of these messages as the server counts them: each payload in the file plus 40."""
        return self._state.byte_count

    # Appending

    def append(self, payload: Any) -> int:
        """Append a message, any bytes-like object up to :data:`MAX_PAYLOAD_BYTES`, and return its sequence.

        On return it is as durable as the ``durability`` of the writer says. Raises :class:`WriteFailed`, then the
        message is not stored; :class:`WrongType`; :class:`LimitExceeded` for a larger payload."""
        return self.append_many((payload,))

    def append_many(self, payloads: Iterable[Any]) -> int:
        """Append messages with as few writes as possible, and return the last one's sequence; that of the channel if
        there are none.

        Raises as :meth:`append` does, before anything is stored if a payload is wrong. After :class:`WriteFailed` the
        first ``error.appended`` messages are stored."""
        messages = [_checked(payload) for payload in payloads]
        with self._lock:
            self._check_open()
            done = 0
            try:
                while done < len(messages):
                    done += self._append_some(messages, done)
                    self._apply_limits()
            except WriteFailed as error:
                error.appended = done
                raise
            return self._state.last

    def _append_some(self, messages: list[bytes], start: int) -> int:
        """Write messages from ``start`` on, as many as fit into the slice and the buffer; return their number."""
        state, now = self._state, max(self._clock_ns(), self._state.last_timestamp)
        if state.needs_slice(now):
            self._next_slice()
        writer = self._slice
        assert writer is not None
        piece, sequence = writer.totals, state.last
        count, byte_count, offset = piece.count, piece.byte_count, piece.dat_end
        first_timestamp = piece.first_timestamp if count else now
        data, index, lengths = bytearray(), bytearray(), []
        for i in range(start, len(messages)):
            sequence += 1
            payload = self._encoder.encode(sequence, messages[i], now)
            index += encode_index_record(sequence, offset + len(data), now, len(payload), self._crc)
            data += encode_record(payload, self._crc)
            lengths.append(len(payload))
            count += 1
            byte_count += len(payload) + RECORD_OVERHEAD
            # The first message of a slice is synced alone: without any index record, recovery can't tell damage from a
            # write that was never finished.
            if len(data) >= BUFFER_BYTES or (self._is_synced and count == 1):
                break
            if state.slice_limits.is_full(count, byte_count, now - first_timestamp):
                break
        if self._is_synced:
            self._sync_names()  # before the write, as after it nothing may fail
        writer.write(data, index, sync=self._is_synced)
        for i, length in enumerate(lengths):
            state.stored(sequence - len(lengths) + 1 + i, length, now)
        return len(lengths)

    def _next_slice(self) -> None:
        """Create the next slice. The one before is synced first, so that damage is only ever at a channel's end."""
        slices = self._state.slices
        if self._slice is not None:
            self._slice.sync()
        totals = create_slice(self._storage, self.channel, slices[-1].number + 1 if slices else 1)
        writer = SliceWriter(self._storage, totals)
        self._close_slice()
        self._slice, self._names_synced = writer, False
        slices.append(totals)

    def _sync_names(self) -> None:
        if not self._names_synced:
            self._storage.sync_folder(self.channel)
            self._names_synced = True

    # Limits

    def expire(self) -> None:
        """Drop the messages that have reached ``max_age``, as appending does; for times without appends."""
        with self._lock:
            self._check_open()
            self._apply_limits()

    def _apply_limits(self) -> None:
        """Drop the oldest messages. As on the original, an append does not fail if that is impossible: the next one
        tries again."""
        state = self._state
        with contextlib.suppress(StoreUnavailable, CorruptData):
            self._remove_emptied()
            while state.exceeds_limits():
                self._drop_first()
            now = self._clock_ns()
            while state.has_age_limit and state.count and self._is_first_expired(now):
                self._drop_first()

    def _is_first_expired(self, now_ns: int) -> bool:
        piece = self._state.slices[0]
        return self._state.is_expired(self._entries.entry(piece, piece.removed).timestamp, now_ns)

    def _drop_first(self) -> None:
        piece = self._state.slices[0]
        entry = self._entries.entry(piece, piece.removed)
        self._state.drop_first(entry.length, entry.sequence)
        self._remove_emptied()

    def _remove_emptied(self) -> None:
        """Delete the first slice if all its messages were dropped, the data first: an index alone is ignored."""
        while (piece := self._state.removable()) is not None:
            self._storage.remove(piece.dat)
            self._storage.remove(piece.idx)
            if self._is_synced:
                self._storage.sync_folder(self.channel)
            self._state.slice_removed()

    # Ending

    def sync(self) -> None:
        """Return when all appended messages are on disk. Raises :class:`WriteFailed`."""
        with self._lock:
            self._check_open()
            self._sync()

    def _sync(self) -> None:
        if self._slice is not None:
            self._slice.sync()
        self._sync_names()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the channel's writer")
        if self._slice is not None and self._slice.is_broken:
            message = f"{self.channel}: an earlier write or sync failed; close the writer and open the channel again"
            raise WriteFailed(self.channel, found="an earlier failure", expected="a new writer", message=message)

    def _close_slice(self) -> None:
        if self._slice is not None:
            self._slice.close()
            self._slice = None

    def close(self) -> None:
        """Sync, as the original does, and close the files. A second call does nothing. Raises :class:`WriteFailed` if
        the sync fails; the files are closed then, too."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._slice is not None and not self._slice.is_broken:
                    self._sync()
            finally:
                self._close_slice()
                self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checked(payload: Any) -> bytes:
    try:
        data = bytes(memoryview(payload))
    except TypeError:
        raise WrongType("message", found=type(payload).__name__, expected="bytes") from None
    if len(data) > MAX_PAYLOAD_BYTES:
        raise LimitExceeded("message", found=f"{len(data)} bytes", expected=f"at most {MAX_PAYLOAD_BYTES}")
    return data
