"""Finds the stores that a path denotes: a store, a folder of stores, a pattern, or several of these separated by
commas."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.core.concurrent_map import concurrent_map
from everlog.core.files.storage import Storage, is_missing
from everlog.errors import EverlogError, LimitExceeded, NotAStore, StoreUnavailable
from everlog.stores import detect, storage_of, store_class

MAX_DEPTH = 8
MAX_FOLDERS = 100_000
"""How deep, and in how many folders, stores are searched for below a folder that is not a store."""

MAX_PATTERN = 4096
"""Longest pattern in characters. No path is longer, and matching costs the square of the length."""
_MAGIC = "*?["
LOG = logging.getLogger("everlog.spark")
_warned: set[str] = set()
"""Unreadable folders that this process has already warned of."""


@dataclass(frozen=True, slots=True)
class FoundStore:
    """A store's path and family."""

    path: str
    family: str


def find_stores(paths: tuple[str, ...], family: str | None = None) -> list[FoundStore]:
    """All stores at or below the paths, in order and without duplicates, however their paths are written.

    A folder that is not a store is searched recursively; a store is not searched for others. With ``family`` only its
    stores are returned, and a folder that neither is a store nor contains any is treated as a store of that family.
    Some matches of a pattern may contain no store, but not all of them.

    Raises :class:`NotAStore` if a path contains no store, :class:`StoreUnavailable` if a path does not exist or a
    folder can't be read. A folder below that denies access only causes a warning.
    """
    if family is not None:
        store_class(family)
    found: dict[str, FoundStore] = {}
    for path in paths:
        places = list(map(_plain, _expand(path)))
        refused: NotAStore | None = None
        count = 0
        for place in places:
            try:
                stores = _stores_at(place, family)
            except NotAStore as error:
                refused = refused or error
                continue
            count += len(stores)
            for store in stores:
                found.setdefault(identity(store.path), store)
        if refused is not None and (not count or not _is_pattern(path)):
            raise refused
    return list(found.values())


def _stores_at(place: str, family: str | None) -> list[FoundStore]:
    if family is None:
        if below := list(_stores_below(place)):
            return below
        message = f"no store at or below {place}"
        raise NotAStore(place, found="no store", expected="a store or a folder of stores", message=message)
    try:
        below = list(_stores_below(place))
    except EverlogError:  # opening it may still work, or explains why it does not
        below = []
    if not below or below[0].path == place:  # its own files are missing, or are those of another family
        return [FoundStore(storage_of(place).root, family)]
    if fitting := [store for store in below if store.family == family]:
        return fitting
    families = ", ".join(sorted({store.family for store in below}))
    message = f"no {family} store below {place}, only {families}"
    raise NotAStore(place, found=f"stores of {families}", expected=f"one of {family}", message=message)


def identity(path: str) -> str:
    """A store's identity, the same for all spellings of its path."""
    path = _without_scheme(path)
    return path if _is_url(path) else os.path.realpath(path)


def _without_scheme(path: str) -> str:
    for prefix in ("file://", "file:", "local://"):
        if path.startswith(prefix) and not os.path.exists(path):
            return path.removeprefix(prefix)
    return path


def _is_pattern(path: str) -> bool:
    return not os.path.exists(path) and any(letter in path for letter in _MAGIC)


def _is_url(path: str) -> bool:
    return "://" in path and not os.path.exists(path)


def _plain(path: str) -> str:
    """Remove slashes at the end, doubled slashes and ``.``. ``..`` stays: after a link it leads elsewhere than its text
    suggests."""
    if _is_url(path):
        return path.rstrip("/") if path.partition("://")[2].strip("/") else path
    if not path:
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def _expand(path: str) -> list[str]:
    whole, path = _without_scheme(path), _without_scheme(path.strip())
    for found in (whole, path):
        if os.path.exists(found):  # an existing path wins over the meaning of spaces, commas and patterns
            return [found]
    if "," in path:
        return [place for part in path.split(",") if part.strip() for place in _expand(part)]
    if not any(letter in path for letter in _MAGIC):
        return [path]
    if len(path) > MAX_PATTERN:
        raise StoreUnavailable(
            path[:80], found=f"a pattern of {len(path)} characters", expected=f"at most {MAX_PATTERN}"
        )
    places = _remote_glob(path) if "://" in path else sorted(filter(os.path.isdir, glob.glob(path, recursive=True)))
    if not places:
        message = f"no folder matches {path}"
        raise StoreUnavailable(path, found="no match", expected="a pattern that matches stores", message=message)
    return places


def _remote_glob(url: str) -> list[str]:
    from everlog.errors import MissingDependency

    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        message, hint = f"{url} needs fsspec", "pip install 'everlog[remote]'"
        raise MissingDependency(url, found="fsspec not installed", message=message, hint=hint) from error
    try:
        files, pattern = url_to_fs(url)
        files.invalidate_cache()  # fsspec caches listings for the life of the process
        return sorted(str(files.unstrip_protocol(name)) for name in files.glob(pattern) if files.isdir(name))
    except ImportError as error:  # each protocol has its own package: s3fs, gcsfs, ...
        raise MissingDependency(url, found=str(error)) from error
    except Exception as error:  # each fsspec back end has its own errors
        found = f"{type(error).__name__}: {error}"
        raise StoreUnavailable(url, found=found, expected="folders that can be listed") from error


def _stores_below(place: str) -> Iterator[FoundStore]:
    """Breadth-first."""
    level, depth, looked = [place], 0, 0
    while level:
        looked += len(level)
        if looked > MAX_FOLDERS:
            raise LimitExceeded(place, found=f"over {MAX_FOLDERS} folders", expected="a folder nearer to the stores")
        below: list[str] = []
        for path, seen in zip(level, concurrent_map(_look, level, [place]), strict=True):
            if isinstance(seen, EverlogError):
                if depth == 0 or not _is_passed_over(seen):
                    raise seen
                continue
            family, folders = seen
            if family:
                _check_text(path)
                yield FoundStore(path, family)
            elif depth < MAX_DEPTH:
                below += (f"{path}{'' if path.endswith('/') else '/'}{name}" for name in folders)
        level, depth = below, depth + 1


def _check_text(path: str) -> None:
    """Raise :class:`StoreUnavailable` for a path that no text column can hold: Linux file names may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise StoreUnavailable(ascii(path), found="a name that is not UTF-8", expected="a name in UTF-8") from error


def _is_passed_over(error: EverlogError) -> bool:
    """Whether the search may skip a folder with this error: it denies access or no longer exists. Other errors may be
    temporary; the folder may be a store, and skipping it would silently omit its records."""
    if not isinstance(error, StoreUnavailable) or is_missing(error):
        return True
    if isinstance(error.__cause__, PermissionError):
        if error.where not in _warned and len(_warned) < MAX_FOLDERS:  # a live query searches repeatedly
            _warned.add(error.where)
            LOG.warning("%s: not searched for stores: %s", error.where, error.found)
        return True
    return False


def _look(path: str) -> tuple[str | None, list[str]] | EverlogError:
    """A store's family, or the subfolders of a folder that is not a store."""
    try:
        storage = storage_of(path)
        family = detect(storage)
        return family, [] if family else _folders(storage)
    except EverlogError as error:
        return error


def _folders(storage: Storage) -> list[str]:
    return sorted(entry.name for entry in storage.entries() if entry.is_dir)
