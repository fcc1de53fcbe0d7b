"""Making a journal, and changing its settings."""

from __future__ import annotations

import contextlib
import os

from everlog.core.files.writable import DRAFT_PREFIX, LocalWritableStorage, WritableStorage, write_failed
from everlog.errors import EverlogError, StoreExists, UsageError
from everlog.jlog.format.framing import LZ4, NULL, PLAIN
from everlog.jlog.format.layouts import JlogMetastore, JlogPreCommit
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT, SAFETY
from everlog.jlog.format.names import METASTORE, PRE_COMMIT
from everlog.jlog.format.pre_commit import read_pre_commit
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of

MAX_SEGMENT_BYTES = 0xFFFF_FFFF
"""The metastore has 32 bits for the limit."""
MAX_BUFFER_BYTES = 1 << 30
FILE_MODE = 0o640
COMPRESSIONS = {None: PLAIN.magic, "off": PLAIN.magic, "none": PLAIN.magic, "lz4": LZ4.magic, "null": NULL.magic}
_SAFETY_NUMBERS = {name: number for number, name in SAFETY.items()}


def create(
    path: str | os.PathLike[str],
    *,
    segment_bytes: int = DEFAULT_UNIT_LIMIT,
    safety: str = "almost_safe",
    compression: str | None = None,
    buffer_bytes: int = 0,
    mode: int = FILE_MODE,
    exist_ok: bool = False,
) -> None:
    """Make an empty journal: a folder that the C library opens as its own.

    ``segment_bytes``: a segment is finished when it has at least so many. ``safety``: ``unsafe``, ``almost_safe`` or
    ``safe`` (see ``docs/durability.md``). ``compression``: ``None``, ``lz4``, or ``null`` (stored as it is, with the
    longer header). ``buffer_bytes``: of the pre-commit buffer, 0 for none. ``mode``: of the files; the folder gets the
    same and may be entered by all who may read.

    With ``exist_ok`` a journal that is there is left as it is. Raises :class:`StoreExists`, :class:`UsageError`,
    :class:`WriteFailed`; then nothing is left, or a whole journal that a power cut may take. What is made is on disk on
    return. A crash in it leaves an empty folder, or one with an empty buffer, which a call with ``exist_ok`` makes a
    journal.
    """
    metastore = JlogMetastore.pack(
        storage_log=0,
        unit_limit=_segment_bytes(segment_bytes),
        safety=_safety(safety),
        magic=_magic(compression),
    )
    _check_buffer(buffer_bytes)
    root = os.fspath(path)
    is_new = _make_folder(root, mode, exist_ok=exist_ok)
    storage = LocalWritableStorage(root)
    try:
        fill_folder(storage, metastore, buffer_bytes=buffer_bytes, mode=mode)
    except EverlogError:
        if is_new:
            _unmake(storage)
        raise
    with contextlib.suppress(EverlogError):  # a parent that may not be read
        LocalWritableStorage(os.path.dirname(os.path.abspath(root))).sync_folder()


def _make_folder(root: str, mode: int, *, exist_ok: bool) -> bool:
    """Whether there was none."""
    try:
        os.mkdir(root)
        os.chmod(root, mode | (mode & 0o444) >> 2)
    except FileExistsError as error:
        if not exist_ok:
            raise StoreExists(root, found="a file or folder of that name", expected="none") from error
        return False
    except OSError as error:
        raise write_failed(root, error) from error
    return True


def _unmake(storage: WritableStorage) -> None:
    with contextlib.suppress(EverlogError, OSError):
        if not storage.exists(METASTORE):
            storage.remove(PRE_COMMIT)
            os.rmdir(storage.root)


def fill_folder(storage: WritableStorage, metastore: bytes, *, buffer_bytes: int, mode: int) -> None:
    """Make an empty folder a journal; the metastore comes last. One that is a journal stays as it is."""
    names = storage.names()
    if METASTORE in names:
        return
    left = read_pre_commit(storage)
    strangers = [name for name in names if name != PRE_COMMIT and not name.startswith(DRAFT_PREFIX)]
    if strangers or (left is not None and left.used):
        raise StoreExists(
            storage.root, found="a folder with other files", expected="a journal, an empty folder or none"
        )
    if buffer_bytes:
        storage.publish(PRE_COMMIT, bytes(JlogPreCommit.size + buffer_bytes), replace=False, mode=mode)
    storage.publish(METASTORE, metastore, replace=False, mode=mode, sync=True)


def alter(
    journal: JournalPath,
    *,
    segment_bytes: int | None = None,
    safety: str | None = None,
    buffer_bytes: int | None = None,
) -> None:
    """Change settings of a journal; what is ``None`` stays. A new segment size and safety reach writers that are open;
    the buffer must not be in use, and what waits in it is written to the journal first.

    Raises :class:`UsageError`, :class:`WriteFailed`, :class:`NotAStore`, :class:`CorruptData`.
    """
    unit_limit = None if segment_bytes is None else _segment_bytes(segment_bytes)
    level = None if safety is None else _safety(safety)
    if buffer_bytes is not None:
        _check_buffer(buffer_bytes)
    storage = storage_of(journal)
    metastore = MetastoreFile(storage)
    try:
        if buffer_bytes is not None:
            _resize_buffer(storage, buffer_bytes, metastore.mode)
        metastore.alter(unit_limit=unit_limit, safety=level)
    finally:
        metastore.close()


def _resize_buffer(storage: WritableStorage, buffer_bytes: int, mode: int) -> None:
    from everlog.jlog.writing.writer import Writer

    new = bytes(JlogPreCommit.size + buffer_bytes)
    found = read_pre_commit(storage)
    if found is not None and found.used:
        Writer(storage, durability="written").close()
        found = read_pre_commit(storage)
        _refuse_used(0 if found is None else found.used)
    if found is None and storage.publish(PRE_COMMIT, new, replace=False, mode=mode):
        return
    if found is not None and found.capacity == buffer_bytes:
        return
    if storage.is_open_elsewhere(PRE_COMMIT):
        raise _in_use("a writer that has it open")
    # Its lock until the new one is there: what a writer that comes meanwhile puts into the old one would be lost.
    with storage.open_writable(PRE_COMMIT) as file:
        if not file.lock(wait=False) or not file.is_current():
            raise _in_use("a writer that has it open")
        head = file.read_at(0, JlogPreCommit.size)
        _refuse_used(JlogPreCommit.unpack_from(head).used if len(head) == JlogPreCommit.size else 0)
        storage.publish(PRE_COMMIT, new, replace=True, mode=mode)


def _refuse_used(used: int) -> None:
    if used:
        raise _in_use("a buffer in use by a writer")


def _in_use(found: str) -> UsageError:
    return UsageError(PRE_COMMIT, found=found, expected="none: close the writers first")


def _segment_bytes(value: int) -> int:
    if not 1 <= value <= MAX_SEGMENT_BYTES:
        raise UsageError("segment_bytes", found=str(value), expected=f"1 to {MAX_SEGMENT_BYTES}")
    return value


def _safety(name: str) -> int:
    if name not in _SAFETY_NUMBERS:
        raise UsageError("safety", found=repr(name), expected=", ".join(_SAFETY_NUMBERS))
    return _SAFETY_NUMBERS[name]


def _magic(compression: str | None) -> int:
    if compression not in COMPRESSIONS:
        raise UsageError("compression", found=repr(compression), expected="None, 'lz4' or 'null'")
    return COMPRESSIONS[compression]


def _check_buffer(value: int) -> None:
    if not 0 <= value <= MAX_BUFFER_BYTES:
        raise UsageError("buffer_bytes", found=str(value), expected=f"0 to {MAX_BUFFER_BYTES}")
