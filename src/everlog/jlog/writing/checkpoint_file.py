"""A subscriber's checkpoint: a file, ``cp.<hex of its name>``, of eight bytes: the last message that it has read."""

from __future__ import annotations

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import CorruptData, UnknownSubscriber, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.names import checkpoint_name, printable

MAX_FILE_NAME_BYTES = 255


def subscriber_name(name: str | bytes) -> str:
    """A name as it is kept: bytes that are not UTF-8 as surrogates. Any bytes do, since the file's name is their hex
    text; one to 126 of them. Raises :class:`UsageError`."""
    if not isinstance(name, str | bytes):
        raise UsageError("subscriber", found=repr(name)[:80], expected="a name, as text or bytes")
    try:
        raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    except UnicodeEncodeError as error:
        raise UsageError("subscriber", found=repr(name), expected="a name that can be encoded") from error
    kept = raw.decode("utf-8", "surrogateescape")
    if not raw or len(checkpoint_name(kept)) > MAX_FILE_NAME_BYTES:
        most = (MAX_FILE_NAME_BYTES - len(checkpoint_name(""))) // 2
        raise UsageError("subscriber", found=f"a name of {len(raw)} bytes", expected=f"1 to {most} bytes")
    return kept


class CheckpointFile:
    """A subscriber's checkpoint, open. Raises :class:`UnknownSubscriber`, :class:`WriteFailed`."""

    def __init__(self, storage: WritableStorage, name: str | bytes) -> None:
        self.subscriber = subscriber_name(name)
        file = checkpoint_name(self.subscriber)
        if not storage.exists(file):
            raise UnknownSubscriber(
                storage.root, found=f"no subscriber {printable(self.subscriber)!r}", expected="one that was added"
            )
        self.file: WritableFile = storage.open_writable(file)

    def read(self) -> Address:
        """The checkpoint, now. Raises :class:`CorruptData` for a file of less than 8 bytes."""
        self.file.lock()
        try:
            return self._read()
        finally:
            self.file.unlock()

    def _read(self) -> Address:
        data = self.file.read_at(0, JlogCheckpoint.size)
        if len(data) != JlogCheckpoint.size:
            raise CorruptData(
                self.file.name,
                found=f"{len(data)} bytes",
                expected=f"{JlogCheckpoint.size} bytes",
                hint=f"set the checkpoint of {printable(self.subscriber)!r} anew",
            )
        values = JlogCheckpoint.unpack_from(data)
        return Address.of(values.log, values.marker)

    def write(self, address: Address, *, sync: bool) -> None:
        """Set the checkpoint; a crash leaves the old one or the new one. Raises :class:`WriteFailed`."""
        data = JlogCheckpoint.struct.pack(address.log, address.marker)
        self.file.lock()
        try:
            self.file.write_at(0, data)
            if sync:
                self.file.sync()
        finally:
            self.file.unlock()

    def move_on(self, done: Address, to: Address, *, sync: bool) -> bool:
        """Set the checkpoint to ``to`` if it is in ``done``'s segment, at ``done`` or behind it; whether it was."""
        data = JlogCheckpoint.struct.pack(to.log, to.marker)
        self.file.lock()
        try:
            found = self._read()
            if found.log != done.log or found < done:
                return False
            self.file.write_at(0, data)
            if sync:
                self.file.sync()
            return True
        finally:
            self.file.unlock()

    def close(self) -> None:
        """Give the file back."""
        self.file.close()
