"""Decrypts the payloads of batches. Messages that cannot be decrypted are reported as faults and omitted."""

from __future__ import annotations

from array import array
from itertools import pairwise

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.report import Fault, Severity
from everlog.core.store import FaultSink
from everlog.nats_streaming.format.names import slice_file
from everlog.nats_streaming.reading.encryption import ChannelCipher, looks_encrypted, wrong_key


class Decrypter:
    """Turns batches with ciphertext into batches of the ``wanted`` columns with plaintext.

    Raises :class:`~everlog.errors.KeyRefused` if a batch has messages that look encrypted, none of them can be
    decrypted, and none could before."""

    def __init__(self, cipher: ChannelCipher, stream: str, wanted: tuple[Column, ...], on_fault: FaultSink) -> None:
        self._cipher = cipher
        self._stream = stream
        self._wanted = wanted
        self._on_fault = on_fault
        self._opened = False

    def batch(self, batch: Batch) -> Batch:
        """Decrypt a batch. It must have the columns ``payload``, ``sequence``, ``slice`` and ``offset``."""
        sealed = batch.data["payload"].to_list(batch.row_count)
        plain = [self._cipher.open(data) for data in sealed]
        changed = sum(a is not b for a, b in zip(sealed, plain, strict=True))
        closed = [i for i, data in enumerate(plain) if data is None]
        if changed > len(closed):
            self._opened = True
        # Payloads too short for a ciphertext say nothing about the key.
        elif not self._opened and (count := sum(looks_encrypted(sealed[i]) for i in closed)):
            raise wrong_key(self._stream, count)
        for i in closed:
            self._report(batch, i, sealed[i])
        rows = [i for i, data in enumerate(plain) if data is not None]
        opened = [data for data in plain if data is not None]
        data = {c.name: self._column(batch, c, rows, opened) for c in self._wanted}
        return Batch(self._wanted, len(rows), data)

    def _column(self, batch: Batch, column: Column, rows: list[int], opened: list[bytes]) -> ColumnData:
        if column.name == "payload":
            return bytes_column(column.type, opened)
        if column.name == "length":
            return ColumnData(column.type, memoryview(array("q", map(len, opened))))
        data = batch.data[column.name]
        if len(rows) == batch.row_count:
            return data
        if data.offsets is not None:
            ends = data.offsets.tolist()
            return bytes_column(column.type, [bytes(data.values[ends[i] : ends[i + 1]]) for i in rows])
        return ColumnData(column.type, memoryview(array(column.type.code, (data.values[i] for i in rows))))

    def _report(self, batch: Batch, i: int, data: bytes) -> None:
        sequence, number, offset = (batch.data[name].values[i] for name in ("sequence", "slice", "offset"))
        self._on_fault(undecryptable(self._stream, slice_file(number, "dat"), offset, sequence, len(data)))


def undecryptable(stream: str, file: str, offset: int, sequence: int, length: int) -> Fault:
    """Make the fault for a message that the key does not decrypt."""
    return Fault(
        "undecryptable",
        f"{stream}/{file}",
        offset,
        f"{length} bytes that cannot be decrypted",
        "data encrypted with this key",
        f"sequence {sequence}",
        "none: restore the file from a copy",
        stream=stream,
        address=str(sequence),
    )


def report_encrypted(batch: Batch, stream: str, folder: str, on_fault: FaultSink) -> None:
    """Report a note if all payloads of a batch look encrypted. Without a key they are returned encrypted, and a reader
    could mistake them for data."""
    ends, values = batch.data["payload"].offsets, memoryview(batch.data["payload"].values)
    assert ends is not None
    places = pairwise(ends[: batch.row_count + 1].tolist())
    if all(looks_encrypted(values[start:end]) for start, end in places):
        found = f"{batch.row_count} of {batch.row_count} payloads that look encrypted"
        on_fault(Fault("encrypted", folder, None, found, "a key", "nothing", "give the key", Severity.NOTE, stream))


def bytes_column(kind: ColumnType, items: list[bytes]) -> ColumnData:
    """Make a column of byte strings."""
    offsets = array("i", [0])
    end = 0
    for item in items:
        end += len(item)
        offsets.append(end)
    return ColumnData(kind, memoryview(b"".join(items)), memoryview(offsets))
