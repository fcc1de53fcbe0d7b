"""What Spark's options say of a write, checked once: where it goes, where it is staged."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.core.files.durability import Durability
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.options import whole_number
from everlog.errors import NotAStore, StoreUnavailable, UsageError
from everlog.pipelines.append.commits import Committer, OnUncertain, Transaction
from everlog.pipelines.append.naming import TargetName, journal_name, recording_name
from everlog.pipelines.append.notes import NOTE_SUFFIX
from everlog.pipelines.append.targets import Target
from everlog.pipelines.scan.live_options import MAX_SECONDS
from everlog.stores import detect

JLOG, AERON = "jlog", "aeron-archive"
STAGING_SUFFIX = ".everlog-staging"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SPARKS_OWN = frozenset(("path", "checkpointlocation", "queryname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows go. ``path`` and ``staging`` are absolute. ``made_with``: how a store is made where there is none,
    ``recording``: which recording of an archive, ``archive``: how the archive is opened; each by the names of what
    takes it. ``transaction`` makes ``df.write`` exact."""

    path: str
    family: str
    staging: str
    create: bool = False
    durability: Durability = Durability.SYNCED
    on_uncertain: OnUncertain = OnUncertain.FAIL
    order_by: str | None = None
    transaction: Transaction | None = None
    made_with: Mapping[str, Any] = field(default_factory=dict)
    recording: Mapping[str, Any] = field(default_factory=dict)
    archive: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> TargetName:
        """As notes name it."""
        store = os.path.realpath(self.path)
        if self.family == JLOG:
            return journal_name(store)
        keys = {name: key for name, (group, key, _) in OF_FAMILY[AERON].items() if group == "recording"}
        return recording_name(store, {name: self.recording[key] for name, key in keys.items() if key in self.recording})

    def staging_storage(self) -> LocalWritableStorage:
        """The staging folder, made where there is none. Raises :class:`WriteFailed`."""
        if not os.path.isdir(self.staging):  # each task of each batch comes here
            make_folder(self.staging)
        return LocalWritableStorage(self.staging)

    def committer(self) -> Committer:
        """Of the driver's commits."""
        make_folder(self.staging)  # its name is on disk before a note in it counts, whoever made it
        return Committer(self.staging_storage(), self.target, self.open_target, on_uncertain=self.on_uncertain)

    def open_target(self) -> Target:
        """The journal or recording, made where ``create`` says so. Raises as these do."""
        if self.family == JLOG:
            from everlog.jlog.writing.creation import create
            from everlog.pipelines.append.journal_target import JournalTarget

            if self.create:
                create(self.path, exist_ok=True, **self.made_with)
            return JournalTarget(LocalWritableStorage(self.path), self.durability)
        from everlog.aeron.archive.recording.options import ArchiveOptions
        from everlog.pipelines.append.recording_target import RecordingOptions, RecordingTarget

        if self.create:
            make_folder(self.path)
        archive = ArchiveOptions(durability=self.durability, **self.made_with, **self.archive)
        options = RecordingOptions(archive=archive, **self.recording)
        return RecordingTarget(LocalWritableStorage(self.path), options, create=self.create)


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise UsageError(f"option {name}", found="nothing", expected="a value")
    return value.strip()


def _flag(name: str, value: str) -> bool:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name}", found=repr(value), expected="true or false")
    return text == "true"


def _number(name: str, value: str) -> int:
    return whole_number(f"option {name}", value)


def _bytes(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d{1,12})\s*([kmg]?)(?:i?b)?", value.strip().lower())
    if match is None:
        raise UsageError(f"option {name}", found=repr(value), expected="bytes, such as 64m")
    return int(match[1]) * _UNITS[match[2]]


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value.strip().removesuffix("s"))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_SECONDS:
        raise UsageError(f"option {name}", found=repr(value), expected=f"seconds, such as 10, at most {MAX_SECONDS:g}")
    return seconds


def _choice(*choices: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            raise UsageError(f"option {name}", found=repr(value), expected=" or ".join(choices))
        return value.strip().lower()

    return check


_Table = dict[str, tuple[str, str, Callable[[str, str], Any]]]
COMMON: _Table = {
    "family": ("", "family", _choice(JLOG, AERON)),
    "create": ("", "create", _flag),
    "stagingPath": ("", "staging", _text),
    "durability": ("", "durability", _choice(Durability.WRITTEN, Durability.SYNCED)),
    "orderBy": ("", "order_by", _text),
    "onUncertain": ("", "on_uncertain", _choice(*OnUncertain)),
    "txnAppId": ("transaction", "app_id", _text),
    "txnVersion": ("transaction", "version", _number),
}
OF_FAMILY: dict[str, _Table] = {
    JLOG: {
        "segmentLength": ("made_with", "segment_bytes", _bytes),
        "compression": ("made_with", "compression", _choice("none", "lz4", "null")),
    },
    AERON: {
        "recording": ("recording", "recording_id", _number),
        "channel": ("recording", "channel", _text),
        "streamId": ("recording", "stream_id", _number),
        "termLength": ("stream_options", "term_length", _bytes),
        "mtuLength": ("stream_options", "mtu_length", _bytes),
        "segmentLength": ("made_with", "segment_length", _bytes),
        "checksum": ("archive", "checksum", _choice("none", "crc32", "crc32c")),
        "livenessTimeout": ("archive", "liveness_timeout_s", _seconds),
        "ownerTimeout": ("recording", "wait_s", _seconds),
    },
}
"""Option -> the group and name that it has here, and how its text is read."""
OPTION_NAMES = (*COMMON, *dict.fromkeys(name for table in OF_FAMILY.values() for name in table))


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read Spark's options, and look at the path. Raises :class:`UsageError` for an unknown option, a wrong value or no
    path, :class:`NotAStore` where there is nothing to append to."""
    given = {name.lower(): value for name, value in options.items()}
    groups: dict[str, dict[str, Any]] = {"": {}, "transaction": {}, "made_with": {}, "recording": {}, "archive": {}}
    groups["stream_options"] = {}
    _fill(groups, given, COMMON)
    own = groups[""]
    path = _path(given)
    family = own["family"] = _family(path, own.get("family"), own.get("create", False))
    _fill(groups, given, OF_FAMILY[family])
    known = {name.lower() for name in (*COMMON, *OF_FAMILY[family])} | _SPARKS_OWN
    if unknown := sorted(name for name in options if name.lower() not in known):
        names = ", ".join((*COMMON, *OF_FAMILY[family]))
        raise UsageError("options", found=", ".join(unknown), expected=f"names out of {names}, to write to {family}")
    if groups["stream_options"]:
        groups["recording"]["stream_options"] = groups["stream_options"]
    if family == AERON:
        _check_recording(groups["recording"])
    own["durability"] = Durability(own.get("durability", Durability.SYNCED))
    own["on_uncertain"] = OnUncertain(own.get("on_uncertain", OnUncertain.FAIL))
    own["staging"] = os.path.abspath(own["staging"]) if "staging" in own else _staging_of(path)
    own["transaction"] = _transaction(groups["transaction"])
    own |= {name: groups[name] for name in ("made_with", "recording", "archive")}
    return WriteOptions(path=path, **own)


def _fill(groups: dict[str, dict[str, Any]], given: Mapping[str, str], table: _Table) -> None:
    for name, (group, key, read) in table.items():
        if name.lower() in given:
            groups[group][key] = read(name, given[name.lower()])


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "").strip()
    if not path:
        raise UsageError("path", found="none", expected="a journal's or an archive's folder: save(path), start(path)")
    if "://" in path:
        raise UsageError("path", found=path, expected="a folder on the driver's machine")
    return os.path.abspath(path)


def _staging_of(path: str) -> str:
    """Of the store itself, not of a link to it: who writes by another name has to find the same notes. Raises
    :class:`UsageError` where an earlier version kept notes by a link's name: passed over, a batch that was begun there
    would be appended again."""
    folder, older = os.path.realpath(path) + STAGING_SUFFIX, path + STAGING_SUFFIX
    if os.path.realpath(older) != os.path.realpath(folder) and _has_notes(older):
        hint = f"when no query writes, move what is in it to {folder}; or stagingPath={older} goes on with it"
        raise UsageError("option stagingPath", found=f"none, and notes in {older}", expected=folder, hint=hint)
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
    if found is None and not create:
        hint = f"create=true with family={JLOG} or {AERON} makes it"
        raise NotAStore(path, found="none of their files", expected=f"a {JLOG} journal or an {AERON}", hint=hint)
    family = family or found
    if family is None:
        raise UsageError("option family", found="none", expected=f"{JLOG} or {AERON}, to be made")
    if found not in (None, family) or family not in OF_FAMILY:
        wanted = family if family in OF_FAMILY else f"{JLOG} or {AERON}"
        raise UsageError(path, found=f"a store of {found or family}", expected=f"one of {wanted}")
    return family


def _check_recording(recording: Mapping[str, Any]) -> None:
    if "recording_id" in recording and len({"channel", "stream_id", "stream_options"} & set(recording)):
        expected = "none beside channel, streamId, termLength and mtuLength"
        raise UsageError("option recording", found=str(recording["recording_id"]), expected=expected)


def _transaction(values: Mapping[str, Any]) -> Transaction | None:
    if not values:
        return None
    if len(values) != 2 or values["version"] < 0:
        expected = "both txnAppId and txnVersion, a number from 0 that grows"
        raise UsageError("option txnAppId", found=str(dict(values)), expected=expected)
    digest = hashlib.sha256(values["app_id"].encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Transaction(f"txn-{digest}", values["version"])
