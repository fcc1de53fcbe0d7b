"""Loads Aeron's properties of an archive, and of its media driver if it runs one, from Java property files, ``AERON_*``
environment variables and ``name=value`` arguments; later sources override earlier ones, in this order.

Every property that Aeron's archive knows either takes effect, or is named in a warning or an error that says why not.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from everlog.aeron.archive.service.settings.choices import SupplierName, parse_supplier
from everlog.aeron.archive.service.settings.settings import PREFIX, ArchiveSettings, name_of
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.properties import (
    Property,
    environment_name,
    from_environment,
    read_properties,
    resolve,
)
from everlog.aeron.transport.driver.settings.property_values import parse_boolean, parse_text
from everlog.errors import UsageError

DIR = "aeron.archive.dir"
DEFAULT_DIR = "aeron-archive"
DRIVER_DIR = "aeron.dir"
SECURITY_FILE = "aeron.archive.security.file"
CONTROL_ENABLED = "aeron.archive.control.channel.enabled"
EVENTS_ENABLED = "aeron.archive.recording.events.enabled"
THREADING_MODE = "aeron.archive.threading.mode"
AUTHENTICATOR = "aeron.archive.authenticator.supplier"
AUTHORISATION = "aeron.archive.authorisation.service.supplier"
SUPPLIERS = (AUTHENTICATOR, AUTHORISATION)
WITHOUT_EFFECT = {
    "aeron.archive.replication.channel": "replication is not supported yet",
    "aeron.archive.max.catalog.entries": "the catalog grows; aeron.archive.catalog.capacity is its first size",
    "aeron.archive.error.buffer.length": "the mark file's error log has always 1 MiB",
    "aeron.archive.control.response.channel": "it is a client's setting",
    "aeron.archive.control.response.stream.id": "it is a client's setting",
    "aeron.archive.message.timeout": "it is a client's setting",
    "aeron.archive.message.retry.attempts": "it is a client's setting",
    "aeron.archive.client.name": "it is a client's setting",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What to run: the archive's folder and settings, the driver's folder, or its configuration if the archive runs
    it; the file with the rules of who may do what; who decides it; and a one-line warning for each property without
    effect."""

    folder: str
    settings: ArchiveSettings
    driver_folder: str | None
    driver: Configuration | None
    security_file: str | None
    authenticator: SupplierName
    authorisation: SupplierName
    warnings: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield ``property=value`` for each property that has a value, those of the driver last."""
        yield f"{DIR}={self.folder}"
        if self.security_file is not None:
            yield f"{SECURITY_FILE}={self.security_file}"
        for name, chosen in ((AUTHENTICATOR, self.authenticator), (AUTHORISATION, self.authorisation)):
            if chosen != "default":
                yield f"{name}={chosen}"
        yield from self.settings.lines()
        if self.driver is not None:
            yield from self.driver.lines()
        elif self.driver_folder is not None:
            yield f"{DRIVER_DIR}={self.driver_folder}"


def load(
    files: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    given: Iterable[str] = (),
    *,
    has_driver: bool = False,
) -> Loaded:
    """Load what to run from property files, environment variables and ``name=value`` arguments (``given``). Raises
    :class:`UsageError` for a wrong value, and for a property that would change the archive's behaviour but is not
    supported; :class:`StoreUnavailable` for a file that can't be read."""
    found: list[Property] = []
    for path in files:
        found.extend(Property(name, value, path) for name, value in read_properties(path))
    found.extend(_own_from_environment(environment or {}))
    found.extend(from_environment(environment or {}))
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError("property on the command line", found=repr(text), expected="NAME=VALUE")
        found.append(Property(name.strip(), value.strip(), "command line"))
    own = {one.name: one for one in found if one.name.startswith(PREFIX)}
    others = [one for one in found if not one.name.startswith(PREFIX)]
    warnings = [*_settled(own)]
    driver = None
    if has_driver:
        loaded = resolve(others)
        driver = loaded.configuration
        warnings.extend(loaded.warnings)
    else:
        warnings.extend(
            f"{one.name} ({one.source}) has no effect: it is a property of the media driver, which --driver starts"
            for one in others
            if one.source == "command line" and one.name != DRIVER_DIR
        )
    folder = [one.value for one in others if one.name == DRIVER_DIR]
    return Loaded(
        own[DIR].value if DIR in own else DEFAULT_DIR,
        _settings_of(own),
        folder[-1] if folder and not has_driver else None,
        driver,
        parse_text(own[SECURITY_FILE].value, SECURITY_FILE) if SECURITY_FILE in own else None,
        _supplier(own, AUTHENTICATOR),
        _supplier(own, AUTHORISATION),
        tuple(warnings),
    )


def _settings_of(own: Mapping[str, Property]) -> ArchiveSettings:
    values: dict[str, Any] = {}
    for one in fields(ArchiveSettings):
        given = own.get(name_of(one))
        if given is not None:
            values[one.name] = one.metadata["parse"](given.value, given.name)
    if CONTROL_ENABLED in own and not parse_boolean(own[CONTROL_ENABLED].value, CONTROL_ENABLED):
        values["control_channel"] = None
    is_enabled = EVENTS_ENABLED in own and parse_boolean(own[EVENTS_ENABLED].value, EVENTS_ENABLED)
    if not is_enabled:
        values["recording_events_channel"] = None
    elif values.get("recording_events_channel") is None:
        expected = "a channel, because aeron.archive.recording.events.enabled is true"
        raise UsageError("aeron.archive.recording.events.channel", found="none", expected=expected)
    return ArchiveSettings(**values)


def _supplier(own: Mapping[str, Property], name: str) -> SupplierName:
    return parse_supplier(own[name].value, name) if name in own else "default"


def _known() -> set[str]:
    special = {DIR, SECURITY_FILE, CONTROL_ENABLED, EVENTS_ENABLED, *SUPPLIERS}
    return {name_of(one) for one in fields(ArchiveSettings)} | special


def _settled(own: Mapping[str, Property]) -> Iterator[str]:
    """Yield a warning for each property without effect. Raises :class:`UsageError` for an unsupported one."""
    known = _known()
    for one in own.values():
        where = f"{one.name} ({one.source})"
        if one.name in WITHOUT_EFFECT:
            yield f"{where} has no effect: {WITHOUT_EFFECT[one.name]}"
        elif one.name == THREADING_MODE:
            if one.value == "INVOKER":
                yield f"{where} means SHARED here: the service has a thread of its own"
        elif one.name in SUPPLIERS:
            chosen = parse_supplier(one.value, one.name)
            if chosen == "sample":
                yield f"{where}: everybody knows the credentials of Aeron's samples; use it for tests only"
            if chosen == "simple" and SECURITY_FILE not in own:
                expected = f"{SECURITY_FILE}=FILE with the principals and rules"
                raise UsageError(one.name, found=one.value, expected=expected)
        elif one.name not in known:
            near = difflib.get_close_matches(one.name, known, 1, 0.8)
            yield f"{where} is unknown and has no effect" + (f"; did you mean {near[0]}?" if near else "")


def _own_from_environment(environment: Mapping[str, str]) -> Iterator[Property]:
    by_variable = {environment_name(name): name for name in (*_known(), *WITHOUT_EFFECT)}
    for variable, value in environment.items():
        if variable in by_variable:
            yield Property(by_variable[variable], value, f"environment: {variable}")
