"""A driver's folder. It holds one driver at a time: a new driver deletes what an earlier one left, after saving its
error log. Source: Aeron, MediaDriver.ensureDirectoryIsRecreated, CommonContext.isDriverActive.

An everlog driver also locks the folder (``flock``) for as long as it lives. So a second everlog driver is refused
immediately, even with ``dir_delete_on_start``, and even if both start at the same time.
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
"""Files left by a driver that died while it started."""
DRIVER_FILES = (CNC_NAME, LOSS_REPORT_NAME, PUBLICATIONS, IMAGES, *DRAFTS)
"""The files and folders that a driver creates. Nothing else is ever deleted."""
LOCK_ATTEMPTS = 5
"""How often to create and lock a folder that another driver deletes at the same time."""
NOT_REMOVABLE = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY)
"""Errors that mean that a folder must stay: it has other files in it, is a link or a mount, or is already gone."""
POLL_INTERVAL_S = 0.01
MS_PER_SECOND = 1000


class DriverIsActive(StoreExists):
    """Another media driver is active in the folder."""


class DriverFolder:
    """A locked folder without files of earlier drivers; :meth:`close` releases it."""

    def __init__(self, configuration: Configuration, warn: Callable[[str], None]) -> None:
        """Create or take over the folder, and lock it. Raises :class:`DriverIsActive` if another driver uses it,
        :class:`NotAStore` if it has other files and no ``cnc.dat``, and :class:`StoreUnavailable` if the system
        refuses."""
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
        """Release the folder, and delete it if the configuration says so. A folder that is a link or a mount, or has
        other files in it, only loses the driver's files. Idempotent."""
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
    """Remove the folder itself, unless it is a link, a mount, or not empty."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in NOT_REMOVABLE:
            raise


def _make_and_lock(path: str) -> int:
    """Return a locked descriptor of the folder that has this path now."""
    for _ in range(LOCK_ATTEMPTS):
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
    raise StoreUnavailable(
        path, found=f"another driver deleted the folder during all {LOCK_ATTEMPTS} attempts to lock it"
    )


def _active(path: str, why: str) -> DriverIsActive:
    return DriverIsActive(
        path,
        found=f"an active media driver ({why})",
        expected="none",
        hint="stop that driver, or choose another aeron.dir",
        message=f"an active media driver uses {path}: {why}",
    )


def _check_is_driver_folder(path: str) -> None:
    names = os.listdir(path)
    strange = sorted(set(names) - set(DRIVER_FILES))
    if strange and CNC_NAME not in names:
        raise NotAStore(
            path,
            found=f"{strange[0]!r} and no {CNC_NAME}",
            expected="an empty folder, or a media driver's",
            message=f"{path} is not a media driver's folder: it has {strange[0]!r} and no {CNC_NAME}",
            hint="choose an empty folder as aeron.dir",
        )


def _check_is_idle(path: str, timeout_ms: int, warn: Callable[[str], None]) -> None:
    """Check that no other driver's heartbeat is recent. A ``cnc.dat`` that stays without a version was left by a driver
    that died while it started. Raises :class:`DriverIsActive`, and :class:`UnsupportedVersion`, because a driver of
    another version may be alive."""
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
                warn(f"assuming a dead driver: {error}")
                return
            time.sleep(POLL_INTERVAL_S)
        except CorruptData as error:
            warn(f"assuming a dead driver: {error}")
            return


def save_errors(path: str, warn: Callable[[str], None]) -> None:
    """Save the previous driver's distinct errors next to the folder, as ``<folder>-<time>-error.log``."""
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
        warn(f"can't save {len(errors)} errors of the previous driver to {name}: {error.strerror}")
        return
    warn(f"existing errors saved to: {name}")


def _lines(errors: list[DistinctError]) -> list[str]:
    lines: list[str] = []
    for error in errors:
        first, last = map(_time, (error.first_observation_timestamp, error.last_observation_timestamp))
        lines += ["***", f"{error.observation_count} observations from {first} to {last} for:", f" {error.text}"]
    return [*lines, "", f"{len(errors)} distinct errors observed.", ""]


def _time(timestamp_ms: int) -> str:
    """Format a time in the local zone, or as a number if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms / MS_PER_SECOND).astimezone().isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def empty(path: str) -> None:
    """Delete a driver's files from its folder."""
    for name in DRIVER_FILES:
        found = os.path.join(path, name)
        if os.path.isdir(found) and not os.path.islink(found):
            shutil.rmtree(found, ignore_errors=True)
        elif os.path.lexists(found):
            os.unlink(found)
