"""Recovers a slice before it is written: indexes whole records that have no index record, and cuts off a torn end.

A good index decides, as on the original: its last entry's message must be whole. What follows that message was not
acknowledged: whole records are kept, the rest is cut off. Without a good index it is rebuilt from the ``.dat`` file;
damage with whole messages after it is then refused, since these may have been acknowledged. Source:
``stores/filestore.go`` (recoverOneMsgFile, ensureLastMsgAndIndexMatch)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableStorage
from everlog.errors import CorruptData
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.blocks import BlockReader
from everlog.nats_streaming.format.budget import Budget
from everlog.nats_streaming.format.encoding import VERSION_WORD, encode_index_record
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, RECORD_OVERHEAD, IndexRecord, RecordHeader
from everlog.nats_streaming.format.messages import MsgProto
from everlog.nats_streaming.format.names import channel_bytes, channel_text
from everlog.nats_streaming.format.protobuf import BadMessage
from everlog.nats_streaming.reading.search import MessageSearch
from everlog.nats_streaming.reading.slices import Slice, SliceState
from everlog.nats_streaming.reading.survey import Surveyor
from everlog.nats_streaming.writing.channel_state import SliceTotals

_FIRST = len(VERSION_WORD)
_REFUSED = frozenset({"wrong-polynomial", "file-version"})
_HINT = "everlog verify shows the damage; restore the file from a copy"


class Record(NamedTuple):
    """A whole record of a ``.dat`` file; ``offset`` is that of its header, ``length`` its payload's."""

    offset: int
    length: int
    sequence: int
    timestamp: int

    @property
    def end(self) -> int:
        """The offset after the record."""
        return self.offset + RecordHeader.size + self.length


class SliceRecovery:
    """Recovers the slices of the channel in ``folder``, whose checksums are ``crc``'s."""

    def __init__(self, storage: WritableStorage, folder: str, crc: Crc32) -> None:
        self._storage = storage
        self._crc = crc
        self._channel = channel_bytes(folder)
        self._surveyor = Surveyor(storage, channel_text(folder), self._channel, crc, True)

    def recover(self, piece: Slice, *, is_last: bool) -> SliceTotals:
        """Recover a slice and return its totals. What follows the indexed records is only touched in the channel's last
        slice. Raises :class:`CorruptData` if messages would be lost, :class:`WriteFailed`, and
        :class:`StoreUnavailable`."""
        if (piece.dat_size or 0) < _FIRST:
            self._complete_version_word(piece)
        state = self._surveyor.survey(piece).state
        for fault in state.faults:
            if fault.code in _REFUSED:
                raise CorruptData(fault.file, offset=fault.offset, found=fault.found, expected=fault.expected)
        totals = _totals(piece, state)
        if not state.indexed:
            self._rebuild(totals)
        elif is_last:
            self._repair_tail(totals)
        return totals

    def _complete_version_word(self, piece: Slice) -> None:
        """A server that was killed while it created the file leaves it without."""
        if (piece.idx_size or 0) > _FIRST:
            raise CorruptData(
                piece.dat, found=f"{piece.dat_size} bytes", expected="the messages of its index", hint=_HINT
            )
        with self._storage.open_writable(piece.dat) as dat:
            dat.write_at(0, VERSION_WORD)

    def _rebuild(self, totals: SliceTotals) -> None:
        with self._storage.open(totals.dat) as file:
            size = file.size()
            records: list[Record] = []
            for record in self._records(file, _FIRST, size):
                while records and records[-1].sequence >= record.sequence:
                    records.pop()  # a server that lost index records has given these sequences again
                records.append(record)
            end = totals.dat_end = records[-1].end if records else _FIRST
            last = records[-1].sequence if records else 0
            if end < size:
                search = MessageSearch(file, self._channel, self._crc, Budget(size, MAX_RECORD_BYTES))
                if (after := search.find(end + 1, size, last)) is not None:
                    raise CorruptData(
                        totals.dat,
                        offset=end,
                        found=f"damage, and whole messages from {after} on",
                        expected="whole records up to the end of the file, or a good index",
                        hint=_HINT,
                    )
        with self._storage.open_writable(totals.idx, create=True) as idx:
            idx.truncate(0)
            idx.write_at(0, VERSION_WORD)
        self._index(totals, records)
        self._cut_data(totals)

    def _repair_tail(self, totals: SliceTotals) -> None:
        with self._storage.open(totals.dat) as file:
            records: list[Record] = []
            for record in self._records(file, totals.dat_end, file.size()):
                if record.sequence <= (records[-1].sequence if records else totals.last):
                    break
                records.append(record)
        if records:
            totals.dat_end = records[-1].end
        self._index(totals, records)
        self._cut_data(totals)

    def _records(self, file: ReadableFile, start: int, size: int) -> Iterator[Record]:
        """Yield whole records of this channel, up to the first that is not."""
        blocks, at = BlockReader(file, size), start
        while size - at >= RecordHeader.size:
            length, crc = RecordHeader.unpack_from(blocks.get(at, RecordHeader.size)).values
            if not 0 < length <= min(MAX_RECORD_BYTES, size - at - RecordHeader.size):
                return
            payload = blocks.get(at + RecordHeader.size, length)
            if self._crc.checksum(payload) != crc:
                return
            try:
                message = MsgProto.parse(payload)
            except BadMessage:
                return
            if message.sequence == 0 or message.subject.encode() != self._channel:
                return
            yield Record(at, length, message.sequence, message.timestamp)
            at += RecordHeader.size + length

    def _index(self, totals: SliceTotals, records: list[Record]) -> None:
        """Append index records after ``idx_end``, cut off what else is there, and count the records."""
        entries = bytearray()
        for record in records:
            entries += encode_index_record(record.sequence, record.offset, record.timestamp, record.length, self._crc)
            if totals.count == 0:
                totals.first, totals.first_timestamp = record.sequence, record.timestamp
            totals.count += 1
            totals.byte_count += record.length + RECORD_OVERHEAD
            totals.last = record.sequence
            totals.last_timestamp = max(totals.last_timestamp, record.timestamp)
        with contextlib.closing(self._storage.open_writable(totals.idx)) as idx:
            if idx.size() == totals.idx_end and not entries:
                return
            if records:  # an index record on disk must have its message
                with self._storage.open_writable(totals.dat) as dat:
                    dat.sync()
            idx.truncate(totals.idx_end)
            idx.write_at(totals.idx_end, entries)
            idx.sync()
        totals.idx_end += len(entries)

    def _cut_data(self, totals: SliceTotals) -> None:
        with self._storage.open_writable(totals.dat) as dat:
            if dat.size() > totals.dat_end:
                dat.truncate(totals.dat_end)
                dat.sync()


def _totals(piece: Slice, state: SliceState) -> SliceTotals:
    if not state.indexed:
        return SliceTotals(piece.number, piece.dat, piece.idx, _FIRST, _FIRST)
    return SliceTotals(
        piece.number,
        piece.dat,
        piece.idx,
        state.data_end,
        _FIRST + state.count * IndexRecord.size,
        state.count,
        state.byte_count,
        state.first,
        state.last,
        state.first_timestamp_ns,
        state.max_timestamp_ns,
    )
