"""The families of stores, and which of them a folder belongs to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict, Unpack

from everlog.aeron.archive.family import ARCHIVE
from everlog.aeron.cluster.family import CLUSTER
from everlog.aeron.family_options import ReadChecksum
from everlog.aeron.transport.family import DRIVER
from everlog.core.family.record import Family, StoreOption, load
from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.store import Store
from everlog.errors import NotAStore, UsageError, WrongType
from everlog.jlog.family import JLOG
from everlog.nats_streaming.family import NATS_STREAMING

if TYPE_CHECKING:
    from everlog.sbe import Schema

FAMILIES_VARIABLE = "EVERLOG_FAMILIES"
"""Environment variable that names further families, with commas between: ``package.module.RECORD``. Processes that
everlog starts, Spark's workers too, inherit it."""


def _further_families() -> list[Family]:
    """Raises :class:`UsageError` for a name that is no family's record."""
    names = [name.strip() for name in os.environ.get(FAMILIES_VARIABLE, "").split(",") if name.strip()]
    found = []
    for name in names:
        try:
            record = load(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(
                FAMILIES_VARIABLE, found=f"{name!r} ({error})", expected="package.module.RECORD"
            ) from error
        if not isinstance(record, Family):
            raise UsageError(
                FAMILIES_VARIABLE, found=repr(name), expected="the name of an everlog.core.family.record.Family"
            )
        found.append(record)
    return found


FAMILIES: dict[str, Family] = {
    family.name: family for family in (ARCHIVE, DRIVER, CLUSTER, JLOG, NATS_STREAMING, *_further_families())
}
"""The record of each family, by name. Detection asks them in this order."""


class StoreOptions(TypedDict, total=False):
    """The options of all families; each takes its own. See the options class of its store for what they mean."""

    checksum: ReadChecksum
    timestamp_from: str | None
    sbe_schema: str | Schema | None
    include_all: bool
    archive_dir: str | None
    pre_commit: bool
    max_msgs: int | str | None
    max_bytes: int | str | None
    max_age: float | str | None
    now_ns: int | str | None
    encryption_key: str | bytes | None
    encryption_key_file: str | None
    encryption_key_env: str | None
    crc: bool | str
    crc_poly: int | str
    include_bak: bool | str


def family_named(name: str) -> Family:
    """The record of a family. Raises :class:`UsageError` for an unknown name."""
    try:
        return FAMILIES[name]
    except KeyError:
        raise UsageError("family", found=repr(name), expected=" or ".join(FAMILIES)) from None


def store_class(family: str) -> type[Store]:
    """The class of a family's stores. Raises :class:`UsageError` for an unknown name."""
    found: type[Store] = load(family_named(family).store)
    return found


def store_options() -> list[StoreOption]:
    """The options of all families, each once."""
    return list(dict.fromkeys(option for family in FAMILIES.values() for option in family.options))


def detect(storage: Storage) -> str | None:
    """The family of a folder, or ``None``."""
    names = set(storage.names())
    # A family whose usual file is there is asked first: then the others are not even imported.
    for family in sorted(FAMILIES.values(), key=lambda family: family.usual_file not in names):
        if store_class(family.name).detect(storage):
            return family.name
    return None


def family_of(storage: Storage) -> str:
    """The family of a folder. Raises :class:`NotAStore` if it has none."""
    family = detect(storage)
    if family is None:
        known = ", ".join(FAMILIES)
        raise NotAStore(
            storage.root,
            found="none of their files",
            expected=f"a store of {known}",
            message=f"no store here: {storage.root} has none of the files of {known}",
        )
    return family


def storage_of(path: str | os.PathLike[str]) -> Storage:
    """The folder at a local path or, if there is none of that name, at a URL that fsspec knows
    (``s3://bucket/archive``).
    """
    text = os.fspath(path)
    if "://" in text and not os.path.exists(text):
        from everlog.core.files.remote import RemoteStorage

        return RemoteStorage(text)
    return LocalStorage(text)


def open_store(
    path: str | os.PathLike[str] | Storage, *, family: str | None = None, **options: Unpack[StoreOptions]
) -> Store:
    """Open a folder read-only. Its family is detected, unless ``family`` names it.

    ``path`` is a local folder, a URL for fsspec (extra ``remote``), or a storage. ``options`` are the family's own (see
    the options class of its store). Raises :class:`NotAStore`, :class:`StoreUnavailable`, :class:`UnsupportedVersion`,
    :class:`UsageError`, or :class:`WrongType` for a path of another type.
    """
    storage = storage_of(path) if isinstance(path, str | os.PathLike) else path
    if not hasattr(storage, "names"):
        raise WrongType("path", found=repr(path), expected="a folder's path, a URL or a storage")
    return store_class(family or family_of(storage)).open(storage, options)
