"""Settings that name a class in Aeron's archive, mapped to everlog's choices. Source: Archive.Configuration, Checksums,
DefaultAuthenticatorSupplier, DefaultAuthorisationServiceSupplier."""

from __future__ import annotations

from typing import Literal, cast

from everlog.aeron.family_options import Checksum
from everlog.aeron.transport.driver.settings.choices import IDLE
from everlog.aeron.transport.driver.settings.property_values import choice
from everlog.errors import UsageError
from everlog.runtime.idle import IdleStrategyName

CHECKSUMS = {
    "none": "none",
    "crc32": "crc32",
    "crc-32": "crc32",
    "Crc32": "crc32",
    "crc32c": "crc32c",
    "crc-32c": "crc32c",
    "Crc32c": "crc32c",
}
ThreadingMode = Literal["SHARED", "DEDICATED"]
"""Conductor, recorder and replayer run in one thread, or each in its own."""
THREADING_MODES = {"SHARED": "SHARED", "DEDICATED": "DEDICATED", "INVOKER": "SHARED"}
SupplierName = Literal["default", "simple", "sample"]
"""Who decides: nobody, a rules file, or the classes of Aeron's samples."""
OWN_RULES = "a rules file: aeron.archive.security.file=FILE, or from Python an object of your own"

_parse_idle = choice(IDLE)
_parse_checksum = choice(CHECKSUMS)
_parse_threading_mode = choice(THREADING_MODES)


def parse_idle(text: str, name: str) -> IdleStrategyName:
    """Parse an idle strategy."""
    found = cast(IdleStrategyName, _parse_idle(text, name))
    if found == "controllable":
        message = f"{name}=controllable is for the media driver, whose counter controls it"
        raise UsageError(name, found=text, expected="another idle strategy", message=message)
    return found


def parse_threading_mode(text: str, name: str) -> ThreadingMode:
    """Parse a threading mode. INVOKER means SHARED: the service has a thread of its own."""
    return cast(ThreadingMode, _parse_threading_mode(text, name))


def parse_checksum(text: str, name: str) -> Checksum:
    """Parse a kind of checksum: a short name or Aeron's class."""
    return cast(Checksum, _parse_checksum(text, name))


def parse_supplier(text: str, name: str) -> SupplierName:
    """Parse an authenticator's or authorisation service's supplier. Aeron's own ones and its samples' mean ours. Raises
    :class:`UsageError` for others: Java classes can't run here."""
    short = text.rpartition(".")[2]
    if short.lower() == "sample" or short.startswith(("SampleAuthenticator", "SampleAuthorisationService")):
        return "sample"
    if short in ("DefaultAuthenticatorSupplier", "DefaultAuthorisationServiceSupplier", "default"):
        return "default"
    if "simple" in short.lower():
        return "simple"
    message = f"{name}={text} is a Java class, which can't run here; use {OWN_RULES}"
    raise UsageError(name, found=text, expected="default, simple or sample", hint=OWN_RULES, message=message)
