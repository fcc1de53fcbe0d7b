"""A driver's folder: one driver in it at a time, what an earlier one left taken away, its errors kept.
Source: Aeron, MediaDriver.ensureDirectoryIsRecreated, CommonContext.isDriverActive.

A driver of ours also locks the folder (``flock``) for as long as it lives. So a second one is refused at once, also
one that is told to delete the folder; and one that starts at the same time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from datetime import datetime

from everlog.aeron.error_log import DistinctError
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.cnc_file import CNC_NAME, CncFile
from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import DRAFT_PREFIX
from everlog.errors import CorruptData, EverlogError, NotAStore, StoreExists, StoreUnavailable

PUBLICATIONS, IMAGES = "publications", "images"
DRAFTS = (DRAFT_PREFIX + CNC_NAME, DRAFT_PREFIX + LOSS_REPORT_NAME)
"""What a driver left that died when it began."""
OURS = (CNC_NAME, LOSS_REPORT_NAME, PUBLICATIONS, IMAGES, *DRAFTS)
"""What a driver puts there; nothing else is ever deleted."""
ATTEMPTS = 5
"""To make and lock a folder that another driver deletes at the same time."""
STAYS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY)
"""Why a folder that is to be deleted is not: what others have in it, a link, a mount."""
POLL_SECONDS = 0.01
MS_PER_SECOND = 1000


class DriverIsActive(StoreExists):
    """Another media driver lives in the folder."""


class DriverFolder:
    """A locked folder that is empty but for what is not a driver's; :meth:`close` gives it back."""

    def __init__(self, configuration: Configuration, warn: Callable[[str], None]) -> None:
        """Takes it. Raises :class:`DriverIsActive`; :class:`NotAStore` for a folder with other things in it and no
        driver's; :class:`StoreUnavailable`."""
        self.path = configuration.dir
        self._deletes = configuration.dir_delete_on_shutdown
        existed = os.path.isdir(self.path)
        if existed and configuration.dir_warn_if_exists:
            warn(f"{self.path} exists")
        self._lock = -1
        try:
            self._lock = _make_and_lock(self.path)
            if existed:
                self._recreate(configuration, warn)
            os.makedirs(os.path.join(self.path, PUBLICATIONS), exist_ok=True)
            os.makedirs(os.path.join(self.path, IMAGES), exist_ok=True)
        except OSError as error:
            self._unlock()
            raise StoreUnavailable(self.path, found=(error.strerror or str(error)).lower()) from error
        except BaseException:
            self._unlock()
            raise

    def _recreate(self, configuration: Configuration, warn: Callable[[str], None]) -> None:
        _check_is_driver_folder(self.path)
        if not configuration.dir_delete_on_start:
            _check_is_idle(self.path, configuration.driver_timeout_ms, warn)
            save_errors(self.path, warn)
        empty(self.path)

    def close(self) -> None:
        """Gives it back; deletes it where the configuration says so. A folder that a link leads to, that is mounted, or
        that has other files in it, is emptied of what is a driver's, and stays. Idempotent."""
        if self._lock < 0:
            return
        try:
            if self._deletes:
                empty(self.path)
                _remove(self.path)
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _remove(path: str) -> None:
    """The folder itself, where it can be removed."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in STAYS:
            raise


def _make_and_lock(path: str) -> int:
    """A locked descriptor of the folder that has this name now."""
    for _ in range(ATTEMPTS):
        os.makedirs(path, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise _active(path, "its lock is held") from None
        os.close(descriptor)
    raise StoreUnavailable(path, found="a folder that is deleted again and again")


def _active(path: str, why: str) -> DriverIsActive:
    hint = "end that one, or give another aeron.dir"
    return DriverIsActive(path, found=f"an active media driver ({why})", expected="none", hint=hint)


def _check_is_driver_folder(path: str) -> None:
    names = os.listdir(path)
    strange = sorted(set(names) - set(OURS))
    if strange and CNC_NAME not in names:
        expected = "an empty folder, or one of a media driver's"
        raise NotAStore(path, found=f"{strange[0]!r} and no {CNC_NAME}", expected=expected)


def _check_is_idle(path: str, timeout_ms: int, warn: Callable[[str], None]) -> None:
    """Another driver's heartbeat is old, or there is none. A file that stays without a version is what a driver left
    that died when it began. Raises :class:`DriverIsActive`, and :class:`UnsupportedVersion`: such a driver may live."""
    end = time.monotonic() + timeout_ms / MS_PER_SECOND
    while os.path.exists(os.path.join(path, CNC_NAME)):
        try:
            with CncFile.open(LocalStorage(path)) as cnc:
                heartbeat = cnc.heartbeat_ms()
                age_ms = int(time.time() * MS_PER_SECOND) - (heartbeat or 0)
                if age_ms <= timeout_ms:
                    raise _active(path, f"process {cnc.header.pid}, heartbeat {max(age_ms, 0)} ms ago")
                return
        except StoreUnavailable as error:
            if time.monotonic() > end:
                warn(f"{error}: taken for a dead driver's")
                return
            time.sleep(POLL_SECONDS)
        except CorruptData as error:
            warn(f"{error}: taken for a dead driver's")
            return


def save_errors(path: str, warn: Callable[[str], None]) -> None:
    """Writes the distinct errors of the driver before beside the folder, as ``<folder>-<time>-error.log``."""
    try:
        with CncFile.open(LocalStorage(path)) as cnc:
            errors = cnc.errors()
    except EverlogError:
        return
    if not errors:
        return
    now = datetime.now().astimezone()
    name = f"{path.rstrip('/')}-{now:%Y-%m-%d-%H-%M-%S}-{now.microsecond // 1000:03d}{now:%z}-error.log"
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write("\n".join(_lines(errors)))
    except OSError as error:
        warn(f"{len(errors)} errors of the driver before could not be saved to {name}: {error.strerror}")
        return
    warn(f"existing errors saved to: {name}")


def _lines(errors: list[DistinctError]) -> list[str]:
    lines: list[str] = []
    for error in errors:
        first, last = map(_time, (error.first_observation_timestamp, error.last_observation_timestamp))
        lines += ["***", f"{error.observation_count} observations from {first} to {last} for:", f" {error.text}"]
    return [*lines, "", f"{len(errors)} distinct errors observed.", ""]


def _time(timestamp_ms: int) -> str:
    """In the local zone; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(timestamp_ms / MS_PER_SECOND).astimezone().isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def empty(path: str) -> None:
    """Deletes what a driver puts into its folder, if it is there."""
    for name in OURS:
        found = os.path.join(path, name)
        if os.path.isdir(found) and not os.path.islink(found):
            shutil.rmtree(found, ignore_errors=True)
        elif os.path.lexists(found):
            os.unlink(found)
