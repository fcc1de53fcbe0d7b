"""Creates a journal and changes its settings."""

from __future__ import annotations

import contextlib
import os

from everlog.core.files.writable import DRAFT_PREFIX, LocalWritableStorage, WritableStorage, write_failed
from everlog.core.options import check_type
from everlog.errors import EverlogError, StoreExists, UsageError, WrongType
from everlog.jlog.format.framing import LZ4, NULL, PLAIN
from everlog.jlog.format.layouts import JlogMetastore, JlogPreCommit
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT, SAFETY
from everlog.jlog.format.names import METASTORE, PRE_COMMIT
from everlog.jlog.format.pre_commit import read_pre_commit
from everlog.jlog.options import Compression, Safety
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of

MAX_SEGMENT_BYTES = 0xFFFF_FFFF
"""The metastore stores the limit in 32 bits."""
MAX_BUFFER_BYTES = 1 << 30
FILE_MODE = 0o640
COMPRESSIONS = {None: PLAIN.magic, "off": PLAIN.magic, "none": PLAIN.magic, "lz4": LZ4.magic, "null": NULL.magic}
_SAFETY_NUMBERS = {name: number for number, name in SAFETY.items()}


def create(
    path: str | os.PathLike[str],
    *,
    segment_bytes: int = DEFAULT_UNIT_LIMIT,
    safety: Safety = "almost_safe",
    compression: Compression | None = None,
    buffer_bytes: int = 0,
    mode: int = FILE_MODE,
    exist_ok: bool = False,
) -> None:
    """Create an empty journal: a folder that the C library can open too.

    ``segment_bytes``: a segment is finished when it has at least this many bytes. ``safety``: see
    ``docs/durability.md``. ``compression``: ``None``, ``"lz4"``, or ``"null"`` (uncompressed, with the longer header).
    ``buffer_bytes``: size of the pre-commit buffer, 0 for none. ``mode``: permission bits of the files; the folder gets
    the same, and whoever may read it may enter it.

    With ``exist_ok`` an existing journal is left unchanged. Raises :class:`StoreExists`, :class:`UsageError` and
    :class:`WriteFailed`; then nothing is left, or a complete journal that a power cut may lose. On return everything is
    on disk. A crash leaves an empty folder, or one with an empty buffer; calling again with ``exist_ok`` completes it.
    """
    metastore = JlogMetastore.pack(
        storage_log=0,
        unit_limit=_segment_bytes(segment_bytes),
        safety=_safety(safety),
        magic=_magic(compression),
    )
    _check_buffer(buffer_bytes)
    check_type("mode", mode, int, "permission bits, such as 0o640")
    root = _path(path)
    is_new = _make_folder(root, mode, exist_ok=exist_ok)
    storage = LocalWritableStorage(root)
    try:
        fill_folder(storage, metastore, buffer_bytes=buffer_bytes, mode=mode)
    except EverlogError:
        if is_new:
            _unmake(storage)
        raise
    with contextlib.suppress(EverlogError):  # the parent may be unreadable
        LocalWritableStorage(os.path.dirname(os.path.abspath(root))).sync_folder()


def _path(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike):
        raise WrongType("path", found=type(path).__name__, expected="a path")
    return os.fspath(path)


def _make_folder(root: str, mode: int, *, exist_ok: bool) -> bool:
    """Returns False if the folder existed."""
    try:
        os.mkdir(root)
        os.chmod(root, mode | (mode & 0o444) >> 2)
    except FileExistsError as error:
        if not exist_ok:
            raise StoreExists(
                root,
                found="it exists",
                expected="a new path",
                hint="choose another path, or open the existing journal (exist_ok=True in Python)",
                message=f"already exists: {root}",
            ) from error
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
    """Turn an empty folder into a journal, writing the metastore last. A folder that is a journal stays unchanged."""
    names = storage.names()
    if METASTORE in names:
        return
    left = read_pre_commit(storage)
    strangers = [name for name in names if name != PRE_COMMIT and not name.startswith(DRAFT_PREFIX)]
    if strangers or (left is not None and left.used):
        raise StoreExists(
            storage.root,
            found="the folder holds other files",
            expected="a journal, an empty folder or none",
        )
    if buffer_bytes:
        storage.publish(PRE_COMMIT, bytes(JlogPreCommit.size + buffer_bytes), replace=False, mode=mode)
    storage.publish(METASTORE, metastore, replace=False, mode=mode, sync=True)


def alter(
    journal: JournalPath,
    *,
    segment_bytes: int | None = None,
    safety: Safety | None = None,
    buffer_bytes: int | None = None,
) -> None:
    """Change settings of a journal; ``None`` keeps a setting. Open writers notice a new segment size and safety. The
    buffer can only be resized while no writer uses it; messages in it are written to the journal first.

    Raises :class:`UsageError`, :class:`WriteFailed`, :class:`NotAStore` and :class:`CorruptData`.
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
        raise _in_use("a writer has it open")
    # Hold the lock until the new buffer is in place: messages that a new writer puts into the old one would be lost.
    with storage.open_writable(PRE_COMMIT) as file:
        if not file.lock(wait=False) or not file.is_current():
            raise _in_use("a writer has it open")
        head = file.read_at(0, JlogPreCommit.size)
        _refuse_used(JlogPreCommit.unpack_from(head).used if len(head) == JlogPreCommit.size else 0)
        storage.publish(PRE_COMMIT, new, replace=True, mode=mode)


def _refuse_used(used: int) -> None:
    if used:
        raise _in_use("a writer uses it")


def _in_use(found: str) -> UsageError:
    return UsageError(
        PRE_COMMIT,
        found=found,
        expected="no open writer",
        hint="close the writers first",
        message=f"the pre-commit buffer can't be resized: {found}",
    )


def _segment_bytes(value: int) -> int:
    check_type("segment_bytes", value, int, "an integer")
    if not 1 <= value <= MAX_SEGMENT_BYTES:
        raise UsageError("segment_bytes", found=str(value), expected=f"from 1 to {MAX_SEGMENT_BYTES}")
    return value


def _safety(name: Safety) -> int:
    if name not in _SAFETY_NUMBERS:
        raise UsageError("safety", found=repr(name), expected="'unsafe', 'almost_safe' or 'safe'")
    return _SAFETY_NUMBERS[name]


def _magic(compression: Compression | None) -> int:
    if compression not in COMPRESSIONS:
        raise UsageError("compression", found=repr(compression), expected="None, 'lz4' or 'null'")
    return COMPRESSIONS[compression]


def _check_buffer(value: int) -> None:
    check_type("buffer_bytes", value, int, "an integer")
    if not 0 <= value <= MAX_BUFFER_BYTES:
        raise UsageError("buffer_bytes", found=str(value), expected=f"from 0 to {MAX_BUFFER_BYTES}")
