"""A subscriber's checkpoint file, ``cp.<hex of its name>``: eight bytes, the address of the last message it has
consumed."""

from __future__ import annotations

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import CorruptData, UnknownSubscriber, UsageError, WrongType
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.names import checkpoint_name, printable

MAX_FILE_NAME_BYTES = 255


def subscriber_name(name: str | bytes) -> str:
    """Normalises a name to text; bytes that are not UTF-8 become surrogates. A name has 1 to 126 bytes of any value,
    because the file name is their hex text. Raises :class:`UsageError`."""
    if not isinstance(name, str | bytes):
        raise WrongType("subscriber name", found=type(name).__name__, expected="str or bytes")
    try:
        raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    except UnicodeEncodeError as error:
        raise UsageError("subscriber name", found=repr(name), expected="encodable as UTF-8") from error
    kept = raw.decode("utf-8", "surrogateescape")
    if not raw or len(checkpoint_name(kept)) > MAX_FILE_NAME_BYTES:
        most = (MAX_FILE_NAME_BYTES - len(checkpoint_name(""))) // 2
        raise UsageError("subscriber name", found=f"{len(raw)}", expected=f"1 to {most} bytes long")
    return kept


class CheckpointFile:
    """A subscriber's checkpoint, open for writing. Raises :class:`UnknownSubscriber` and :class:`WriteFailed`."""

    def __init__(self, storage: WritableStorage, name: str | bytes) -> None:
        self.subscriber = subscriber_name(name)
        file = checkpoint_name(self.subscriber)
        if not storage.exists(file):
            raise UnknownSubscriber(
                storage.root,
                found=f"no subscriber {printable(self.subscriber)!r}",
                hint="everlog.jlog.add_subscriber adds one",
            )
        self.file: WritableFile = storage.open_writable(file)

    def read(self) -> Address:
        """The current checkpoint. Raises :class:`CorruptData` if the file has fewer than 8 bytes."""
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
                found=f"the checkpoint has {len(data)} bytes",
                expected=f"{JlogCheckpoint.size} bytes",
                hint=f"set the checkpoint of {printable(self.subscriber)!r} again",
            )
        values = JlogCheckpoint.unpack_from(data)
        return Address.of(values.log, values.marker)

    def write(self, address: Address, *, sync: bool) -> None:
        """Set the checkpoint. A crash leaves the old or the new one. Raises :class:`WriteFailed`."""
        data = JlogCheckpoint.struct.pack(address.log, address.marker)
        self.file.lock()
        try:
            self.file.write_at(0, data)
            if sync:
                self.file.sync()
        finally:
            self.file.unlock()

    def move_on(self, done: Address, to: Address, *, sync: bool) -> bool:
        """Set the checkpoint to ``to`` if it is in the segment of ``done``, at or after ``done``. Returns whether it
        was."""
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
        """Close the file."""
        self.file.close()
