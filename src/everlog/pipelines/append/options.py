"""Spark's options of a write, checked once: the target and the staging folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.core.appending.family import Appending
from everlog.core.appending.target import Target
from everlog.core.appending.target_name import TargetName
from everlog.core.family.record import load
from everlog.core.files.durability import Durability
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.option_kinds import Reader, choice, read_flag, read_text
from everlog.core.options import whole_number
from everlog.errors import NotAStore, StoreUnavailable, UsageError
from everlog.pipelines.append.commits import Committer, OnUncertain, Transaction
from everlog.pipelines.append.notes import NOTE_SUFFIX
from everlog.stores import FAMILIES, detect, family_named

STAGING_SUFFIX = ".everlog-staging"
_SPARKS_OWN = frozenset(("path", "checkpointlocation", "queryname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows are written. ``path`` and ``staging`` are absolute. ``given`` are the options of the store's family,
    by the keys of its :class:`~everlog.core.appending.family.Appending`. ``transaction`` makes ``df.write``
    exactly-once."""

    path: str
    family: str
    staging: str
    create: bool = False
    durability: Durability = Durability.SYNCED
    on_uncertain: OnUncertain = OnUncertain.FAIL
    order_by: str | None = None
    transaction: Transaction | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> TargetName:
        """The target's name in notes."""
        return appending_of(self.family).target_name(os.path.realpath(self.path), self.given)

    def staging_storage(self) -> LocalWritableStorage:
        """The staging folder, created if it is missing. Raises :class:`WriteFailed`."""
        if not os.path.isdir(self.staging):  # every task of every batch calls this
            make_folder(self.staging)
        return LocalWritableStorage(self.staging)

    def committer(self) -> Committer:
        """The committer for use on the driver."""
        make_folder(self.staging)  # syncs the folder's name even if it exists: a note in it must not be lost
        return Committer(self.staging_storage(), self.target, self.open_target, on_uncertain=self.on_uncertain)

    def open_target(self) -> Target:
        """Open the stream to append to; with ``create`` a missing store is created. Raises what opening it raises."""
        appending = appending_of(self.family)
        return appending.open_target(self.path, self.given, create=self.create, durability=self.durability)


def appendable_families() -> list[str]:
    """The families that Spark writes to."""
    return [family.name for family in FAMILIES.values() if family.appending is not None]


def appending_of(family: str) -> Appending:
    """How to append to a family. Raises :class:`UsageError` if Spark can't write to it."""
    name = family_named(family).appending
    if name is None:
        raise UsageError("option family", found=repr(family), expected=" or ".join(appendable_families()))
    found: Appending = load(name)()
    return found


_Table = dict[str, tuple[str, str, Reader]]
COMMON: _Table = {
    "family": ("", "family", read_text),
    "create": ("", "create", read_flag),
    "stagingPath": ("", "staging", read_text),
    "durability": ("", "durability", choice(Durability.WRITTEN, Durability.SYNCED).read),
    "orderBy": ("", "order_by", read_text),
    "onUncertain": ("", "on_uncertain", choice(*OnUncertain).read),
    "txnAppId": ("transaction", "app_id", read_text),
    "txnVersion": ("transaction", "version", whole_number),
}
"""Option -> its group, its field, and the reader of its text."""


def option_names() -> list[str]:
    """The options of a write to any family, without duplicates."""
    own = [option.spark for family in appendable_families() for option in appending_of(family).options]
    return list(dict.fromkeys([*COMMON, *own]))


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse Spark's options and inspect the path. Raises :class:`UsageError` for an unknown option, a wrong value or no
    path, :class:`NotAStore` if there is nothing to append to."""
    given = {name.lower(): value for name, value in options.items()}
    groups: dict[str, dict[str, Any]] = {"": {}, "transaction": {}, "family": {}}
    _fill(groups, given, COMMON)
    own = groups[""]
    path = _path(given)
    family = own["family"] = _family(path, own.get("family"), own.get("create", False))
    appending = appending_of(family)
    table = COMMON | {option.spark: ("family", option.key, option.kind.read) for option in appending.options}
    _fill(groups, given, table)
    known = {name.lower() for name in table} | _SPARKS_OWN
    if unknown := sorted(name for name in options if name.lower() not in known):
        what = "option" if len(unknown) == 1 else "options"
        raise UsageError(
            "options",
            found=", ".join(unknown),
            expected=f"names out of {', '.join(table)}",
            message=f"unknown {what} {', '.join(unknown)}; known for {family}: {', '.join(table)}",
        )
    appending.check(groups["family"])
    own["durability"] = Durability(own.get("durability", Durability.SYNCED))
    own["on_uncertain"] = OnUncertain(own.get("on_uncertain", OnUncertain.FAIL))
    own["staging"] = os.path.abspath(own["staging"]) if "staging" in own else _staging_of(path)
    own["transaction"] = _transaction(groups["transaction"])
    return WriteOptions(path=path, **own, given=groups["family"])


def _fill(groups: dict[str, dict[str, Any]], given: Mapping[str, str], table: _Table) -> None:
    for name, (group, key, read) in table.items():
        if name.lower() in given:
            groups[group][key] = read(f"option {name}", given[name.lower()])


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "").strip()
    if not path:
        raise UsageError(
            "path",
            found="none",
            expected="a folder",
            message="path is missing: save(path) or start(path), with a store's folder",
        )
    if "://" in path:
        raise UsageError("path", found=path, expected="a folder on the driver's machine")
    return os.path.abspath(path)


def _staging_of(path: str) -> str:
    """The default staging folder. It is next to the store itself, not to a link to it, so that writes under another
    name find the same notes. Raises :class:`UsageError` if an earlier version kept notes under a link's name: ignoring
    them would append a begun batch again."""
    folder, older = os.path.realpath(path) + STAGING_SUFFIX, path + STAGING_SUFFIX
    if os.path.realpath(older) != os.path.realpath(folder) and _has_notes(older):
        hint = f"while no query writes, move them to {folder}; or give stagingPath={older}"
        message = f"notes of earlier writes lie in {older}, not in {folder}"
        raise UsageError("option stagingPath", found=f"notes in {older}", expected=folder, message=message, hint=hint)
    return folder


def _has_notes(folder: str) -> bool:
    try:
        return any(name.endswith(NOTE_SUFFIX) for name in os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnavailable(folder, found=error.strerror, expected="a folder to read") from error


def _family(path: str, family: str | None, create: bool) -> str:
    found = detect(LocalStorage(path)) if os.path.isdir(path) else None
    known = " or ".join(appendable_families())
    if found is None and not create:
        hint = f"create=true with family={known} creates one"
        message = f"no store to append to at {path}"
        raise NotAStore(path, found="no store", expected=f"a store of {known}", message=message, hint=hint)
    family = family or found
    if family is None:
        message = f"option family is missing; it says what to create: {known}"
        raise UsageError("option family", found="none", expected=known, message=message)
    if family not in appendable_families():
        raise UsageError("option family", found=repr(family), expected=known)
    if found not in (None, family):
        message = f"{path} is a store of {found}, not of {family}"
        raise UsageError(path, found=f"a store of {found}", expected=f"one of {family}", message=message)
    return family


def _transaction(values: Mapping[str, Any]) -> Transaction | None:
    if not values:
        return None
    if len(values) != 2 or values["version"] < 0:
        expected = "given together, with an increasing version from 0"
        raise UsageError("options txnAppId and txnVersion", found=str(dict(values)), expected=expected)
    digest = hashlib.sha256(values["app_id"].encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Transaction(f"txn-{digest}", values["version"])
