"""Stores behind a path: the store itself, a folder of stores, a pattern, several of these with commas between."""

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
"""How deep and in how many folders stores are looked for below a folder that is none."""

MAX_PATTERN = 4096
"""Characters: no path is longer, and to look through a pattern costs the square of its length."""
_MAGIC = "*?["
LOG = logging.getLogger("everlog.spark")
_told: set[str] = set()
"""Folders that may not be looked into, of which there was a warning in this process."""


@dataclass(frozen=True, slots=True)
class FoundStore:
    """Where a store is, and of which family."""

    path: str
    family: str


def find_stores(paths: tuple[str, ...], family: str | None = None) -> list[FoundStore]:
    """All stores of the paths, in order, none twice, in whatever ways its path is written. Below a folder that is no
    store they are looked for in its folders; inside a store no others are. With ``family`` those of it are taken, and a
    folder that is no store, nor has any below it, is taken as a store of it. What a pattern matches may have none, but
    for all of it. Raises :class:`NotAStore` where a path leads to none, :class:`StoreUnavailable` where it leads
    nowhere, or a folder can't be looked at; one that may not be looked into is a warning."""
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
        raise NotAStore(place, found="no store in it or below it", expected="a store or a folder of stores")
    try:
        below = list(_stores_below(place))
    except EverlogError:  # what can't be looked at may be opened all the same, or tells why not
        below = []
    if not below or below[0].path == place:  # its own files are missing, or tell of another family
        return [FoundStore(storage_of(place).root, family)]
    if fitting := [store for store in below if store.family == family]:
        return fitting
    families = ", ".join(sorted({store.family for store in below}))
    raise NotAStore(place, found=f"stores of {families} below it", expected=f"one of {family}")


def identity(path: str) -> str:
    """The same for all ways to write a store's path."""
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
    """Without what says nothing: slashes at the end, doubled ones, and steps to where one is. ``..`` stays: behind a
    link it leads elsewhere than it reads."""
    if _is_url(path):
        return path.rstrip("/") if path.partition("://")[2].strip("/") else path
    if not path:
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def _expand(path: str) -> list[str]:
    whole, path = _without_scheme(path), _without_scheme(path.strip())
    for found in (whole, path):
        if os.path.exists(found):  # as it is, before spaces, commas and patterns mean anything
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
        raise StoreUnavailable(path, found="no folder that matches", expected="a pattern that matches stores")
    return places


def _remote_glob(url: str) -> list[str]:
    from everlog.errors import MissingDependency

    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingDependency(url, found="fsspec not installed", hint="pip install 'everlog[remote]'") from error
    try:
        files, pattern = url_to_fs(url)
        files.invalidate_cache()  # it remembers listings as long as the process lives
        return sorted(str(files.unstrip_protocol(name)) for name in files.glob(pattern) if files.isdir(name))
    except ImportError as error:  # s3fs, gcsfs, ...: each protocol has a package of its own
        raise MissingDependency(url, found=str(error)) from error
    except Exception as error:  # each fsspec back end has errors of its own
        found = f"{type(error).__name__}: {error}"
        raise StoreUnavailable(url, found=found, expected="a pattern of folders that can be listed") from error


def _stores_below(place: str) -> Iterator[FoundStore]:
    """Level by level."""
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
    """Raise :class:`StoreUnavailable` for a path that no text column can hold: Linux takes any bytes for a name."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise StoreUnavailable(ascii(path), found="a name that is no UTF-8", expected="a name that is text") from error


def _is_passed_over(error: EverlogError) -> bool:
    """Whether a folder below with that error is taken for none of ours: one that may not be looked into, or is gone by
    now. One that could not be looked at this once may be a store, whose records would be left out in silence."""
    if not isinstance(error, StoreUnavailable) or is_missing(error):
        return True
    if isinstance(error.__cause__, PermissionError):
        if error.where not in _told and len(_told) < MAX_FOLDERS:  # a live query looks again and again
            _told.add(error.where)
            LOG.warning("%s: not looked into for stores: %s", error.where, error.found)
        return True
    return False


def _look(path: str) -> tuple[str | None, list[str]] | EverlogError:
    """A store's family, or the folders in what is none."""
    try:
        storage = storage_of(path)
        family = detect(storage)
        return family, [] if family else _folders(storage)
    except EverlogError as error:
        return error


def _folders(storage: Storage) -> list[str]:
    return sorted(entry.name for entry in storage.entries() if entry.is_dir)
