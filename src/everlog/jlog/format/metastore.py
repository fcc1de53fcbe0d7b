"""Reads and checks the metastore. The data takes precedence over it."""

from __future__ import annotations

from dataclasses import dataclass, field

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.errors import EverlogError, UnsupportedVersion
from everlog.jlog.format.faults import fault
from everlog.jlog.format.framing import Framing, is_valid_magic
from everlog.jlog.format.layouts import LEGACY_MAGIC, PLAIN_MAGIC, JlogLegacyMetastore, JlogMetastore
from everlog.jlog.format.names import METASTORE

DEFAULT_UNIT_LIMIT = 4 << 20
SAFETY = {0: "unsafe", 1: "almost_safe", 2: "safe"}
_REBUILD = (
    "rewrite the metastore with its valid fields or the defaults, the highest segment, and the magic of the messages"
)


@dataclass(slots=True)
class Metastore:
    """The fields of the metastore; one is ``None`` if it is missing or invalid. ``faults`` lists what is wrong."""

    storage_log: int | None = None
    unit_limit: int | None = None
    safety: int | None = None
    magic: int | None = None
    byte_count: int | None = None
    faults: list[Fault] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Plain values for ``info``."""
        return {
            "storage_log": self.storage_log,
            "segment_limit_bytes": self.unit_limit,
            "safety": None if self.safety is None else SAFETY[self.safety],
            "magic": None if self.magic is None else f"{self.magic:08x}",
            "compression": None if self.magic is None else Framing(self.magic).provider.label,
        }


def read_metastore(storage: Storage) -> Metastore:
    """Read and check the metastore. Raises only :class:`UnsupportedVersion`, for a journal of the other byte order."""
    found = Metastore()
    try:
        if not storage.exists(METASTORE):
            found.faults.append(_fault("metastore-missing", None, "no file", "16 bytes"))
            return found
        data = _head(storage, found)
    except EverlogError as error:
        found.faults.append(_fault("unreadable-file", None, str(error), "a readable file"))
        return found
    if found.byte_count == JlogLegacyMetastore.size:
        legacy = JlogLegacyMetastore.unpack_from(data)
        found.storage_log, found.magic = legacy.storage_log, LEGACY_MAGIC
        found.faults.append(_legacy())
        _judge(found, legacy.unit_limit, legacy.safety)
    elif found.byte_count == JlogMetastore.size:
        values = JlogMetastore.unpack_from(data)
        _judge_magic(found, values.magic, storage.root)
        _judge(found, values.unit_limit, values.safety)
        if len(found.faults) < 2:  # two wrong fields mean zeros or garbage: distrust the others too
            found.storage_log = values.storage_log
    else:
        found.faults.append(_fault("metastore-size", None, f"{found.byte_count} bytes", "16 bytes"))
    return found


def _head(storage: Storage, found: Metastore) -> bytes:
    with storage.open(METASTORE) as file:
        found.byte_count = file.size()
        return file.read_at(0, JlogMetastore.size)


def _judge_magic(found: Metastore, magic: int, root: str) -> None:
    swapped = int.from_bytes(magic.to_bytes(4, "little"), "big")
    if (
        not is_valid_magic(magic)
        and swapped != magic
        and (swapped == PLAIN_MAGIC or swapped & 0xFFFF_FF00 == 0x15106A00)
    ):
        raise UnsupportedVersion(
            root,
            found="the journal was written on a big-endian machine",
            expected="little-endian integers",
            hint="JLog's jlog_change_endian.pl converts it",
        )
    if is_valid_magic(magic):
        found.magic = magic
        if Framing(magic).provider.label == "unknown":
            found.faults.append(
                fault(
                    "unknown-compression",
                    METASTORE,
                    JlogMetastore.magic.offset,  # type: ignore[attr-defined]
                    f"magic {magic:#010x}",
                    "provider 0 (null) or 1 (LZ4)",
                    loses="all payloads",
                    repair="set the magic to the one in the messages",
                )
            )
    else:
        _field(found, JlogMetastore.magic, f"magic {magic:#010x}", f"{PLAIN_MAGIC:#010x} or 0x15106a00 to 0x15106a01")


def _judge(found: Metastore, unit_limit: int, safety: int) -> None:
    if unit_limit:
        found.unit_limit = unit_limit
    else:
        _field(found, JlogMetastore.unit_limit, "unit_limit 0", "at least 1")
    if safety in SAFETY:
        found.safety = safety
    else:
        _field(found, JlogMetastore.safety, f"safety {safety}", "0, 1 or 2")


def _field(found: Metastore, where: object, what: str, expected: str) -> None:
    found.faults.append(_fault("metastore-field", where.offset, what, expected))  # type: ignore[attr-defined]


def _fault(code: str, offset: int | None, found: str, expected: str) -> Fault:
    return fault(
        code,
        METASTORE,
        offset,
        found,
        expected,
        loses="nothing here; the C library can't open the journal, or opens it with default settings",
        repair=_REBUILD,
    )


def _legacy() -> Fault:
    return fault(
        "metastore-legacy",
        METASTORE,
        None,
        "12 bytes",
        "16 bytes",
        loses="nothing here; JLog 2 reads it only by closed indexes, and its repair erases all messages",
        repair="rewrite the journal with everlog",
    )
