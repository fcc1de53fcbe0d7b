"""Encodes what the files of a store are made of: the version word, records and index entries.

The checksum is always written: a server that runs with ``-file_crc=false`` writes it, too, and only does not check it.
Source: ``stores/filestore.go`` (writeRecord, addIndex)."""

from __future__ import annotations

from everlog.errors import LimitExceeded
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.layouts import (
    MAX_RECORD_BYTES,
    MAX_TYPED_BYTES,
    SUPPORTED_VERSION,
    FileVersion,
    IndexRecord,
    RecordHeader,
)
from everlog.nats_streaming.format.protobuf import LENGTH, VARINT, tag, varint

VERSION_WORD = FileVersion.pack(version=SUPPORTED_VERSION)
_CHECKED_BYTES = IndexRecord.field("crc").offset
_SEQUENCE, _SUBJECT, _DATA, _TIMESTAMP = tag(1, VARINT), tag(2, LENGTH), tag(4, LENGTH), tag(5, VARINT)


def encode_record(payload: bytes, crc: Crc32, kind: int = 0) -> bytes:
    """Return a record: its header and ``payload``. ``kind`` is the record's type in ``clients.dat`` and ``subs.dat``, 0
    elsewhere. Raises :class:`LimitExceeded` for a payload that its header can't describe."""
    limit = MAX_TYPED_BYTES if kind else MAX_RECORD_BYTES
    if len(payload) > limit:
        raise LimitExceeded("record", found=f"{len(payload)} bytes", expected=f"at most {limit}")
    return RecordHeader.struct.pack(kind << 24 | len(payload), crc.checksum(payload)) + payload


def encode_index_record(sequence: int, offset: int, timestamp: int, length: int, crc: Crc32) -> bytes:
    """Return the index record of a message whose record header is at ``offset`` in the ``.dat`` file and whose payload
    has ``length`` bytes; ``timestamp`` is nanoseconds since 1970."""
    entry = bytearray(IndexRecord.struct.pack(sequence, offset, timestamp, length, 0))
    entry[_CHECKED_BYTES:] = crc.checksum(entry, 0, _CHECKED_BYTES).to_bytes(4, "little")
    return bytes(entry)


class MessageEncoder:
    """Encodes messages of one channel, the same bytes as
    :meth:`~everlog.nats_streaming.format.messages.MsgProto.encode`."""

    def __init__(self, channel: bytes) -> None:
        self._subject = _SUBJECT + varint(len(channel)) + channel

    def encode(self, sequence: int, data: bytes, timestamp: int) -> bytes:
        """Return the message's bytes; ``timestamp`` is nanoseconds since 1970."""
        head = _SEQUENCE + varint(sequence) + self._subject
        if data:
            head += _DATA + varint(len(data))
        return head + data + (_TIMESTAMP + varint(timestamp) if timestamp else b"")
