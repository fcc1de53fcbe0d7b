"""Loads Aeron's properties from Java property files, from ``AERON_*`` environment variables as the C driver names
them, and from ``name=value`` arguments. Later sources override earlier ones, in this order; so do later files.

Every property that Aeron's driver knows either takes effect, or is named in a warning or an error that says why not.
Source: java.util.Properties.load; Agrona, SystemUtil.loadPropertiesFiles; aeronmd.h (names in the environment)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.core.files.regular_files import read_small_file
from everlog.errors import UsageError

FILE_BYTES_MAX = 1 << 20
ENVIRONMENT_PREFIX = "AERON_"
OTHER_PROGRAMS = ("aeron.archive.", "aeron.client.", "aeron.cluster.", "aeron.event.", "aeron.sample.", "aeron.spy.")
"""Property prefixes of other programs, whose properties may be in the same files."""
DEBUG_ENDPOINTS = "it configures Aeron's debug channel endpoints"
WITHOUT_EFFECT = {
    "aeron.use.windows.high.res.timer": "it applies to Windows only",
    "aeron.driver.native.resource.agent.idle.strategy": "the conductor maps files here",
    "aeron.driver.async.executor.enabled": "the conductor does that executor's work here",
    "aeron.driver.async.executor.idle.strategy": "the conductor does that executor's work here",
    "aeron.driver.async.executor.cpu.affinity": "the conductor does that executor's work here",
    "aeron.debug.receive.control.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.receive.control.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.receive.data.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.receive.data.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.send.control.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.send.control.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.send.data.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.send.data.loss.seed": DEBUG_ENDPOINTS,
    "aeron.thread.naming": "threads always have Aeron's names",
    "aeron.fallback.logger": "errors that can't be logged go to stderr",
    "aeron.secure.random.algorithm": "the system's random numbers are used",
    "aeron.enable.experimental.features": "there are none here",
    "aeron.debug.timeout": "debuggers are not supported",
    "aeron.pre.touch.mapped.memory": "it is a client's setting",
    "aeron.receiver.io.vector.capacity": "batches of datagrams have a fixed size here",
    "aeron.sender.io.vector.capacity": "batches of datagrams have a fixed size here",
    "aeron.network.publication.max.messages.per.send": "batches of datagrams have a fixed size here",
    "aeron.driver.connect": "it is a setting of Aeron's samples",
}
REFUSED = {
    "aeron.SendChannelEndpoint.supplier": "Java classes can't run here",
    "aeron.ReceiveChannelEndpoint.supplier": "Java classes can't run here",
    "aeron.flow.control.sm.applicationSpecificFeedback": "use its replacement, aeron.receiver.group.tag",
    "aeron.PreferredMulticastFlowControl.asf": "use its replacement, aeron.flow.control.group.tag",
    "aeron.udp.channel.incoming.interceptors": "C libraries can't be loaded here",
    "aeron.udp.channel.outgoing.interceptors": "C libraries can't be loaded here",
    "aeron.udp.channel.transport.bindings.media": "C libraries can't be loaded here",
    "aeron.conductor.udp.channel.transport.bindings.media": "C libraries can't be loaded here",
    "aeron.driver.dynamic.libraries": "C libraries can't be loaded here",
    "aeron.agent.on.start.function": "C libraries can't be loaded here",
    "aeron.name.resolver.supplier": "C libraries can't be loaded here; aeron.driver.resolver.* configure a resolver",
    "aeron.name.resolver.init.args": "C libraries can't be loaded here; aeron.driver.resolver.* configure a resolver",
    "aeron.conductor.cpu.affinity": "run the driver under taskset instead",
    "aeron.sender.cpu.affinity": "run the driver under taskset instead",
    "aeron.receiver.cpu.affinity": "run the driver under taskset instead",
    "aeron.driver.native.resource.agent.cpu.affinity": "run the driver under taskset instead",
    "aeron.driver.cpuset.affinity": "run the driver under taskset instead",
    "aeron.driver.cpuset.warnings.as.errors": "run the driver under taskset instead",
    "aeron.conductor.idle.strategy.init.args": "idle strategies always have Aeron's default parameters",
    "aeron.sender.idle.strategy.init.args": "idle strategies always have Aeron's default parameters",
    "aeron.receiver.idle.strategy.init.args": "idle strategies always have Aeron's default parameters",
    "aeron.shared.idle.strategy.init.args": "idle strategies always have Aeron's default parameters",
    "aeron.sharednetwork.idle.strategy.init.args": "idle strategies always have Aeron's default parameters",
}
OTHER_NAMES = {"AERON_DRIVER_NAME_RESOLVER_THRESHOLD": "aeron.name.resolver.threshold"}
"""Environment variables that are not named after their property."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property and its source: a file's path, ``environment: VARIABLE`` or ``command line``."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and a one-line warning for each property without effect."""

    configuration: Configuration
    warnings: tuple[str, ...]


def load(files: Iterable[str] = (), environment: Mapping[str, str] | None = None, given: Iterable[str] = ()) -> Loaded:
    """Load a configuration from property files, environment variables and ``name=value`` arguments (``given``). Raises
    :class:`UsageError` for a wrong value, and for a property that would change the driver's behaviour but is not
    supported; :class:`StoreUnavailable` for a file that can't be read."""
    found: list[Property] = []
    for path in files:
        found.extend(Property(name, value, path) for name, value in read_properties(path))
    found.extend(from_environment(environment or {}))
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError("property on the command line", found=repr(text), expected="NAME=VALUE")
        found.append(Property(name.strip(), value.strip(), "command line"))
    return resolve(found)


def resolve(found: Iterable[Property]) -> Loaded:
    """Make a configuration from properties. The last of several with the same name takes effect."""
    last = {given.name: given for given in found}
    values: dict[str, Any] = {}
    for setting in fields(Configuration):
        names = setting.metadata["names"]
        given = next((last[name] for name in (*names[1:], names[0]) if name in last), None)
        if given is not None:
            values[setting.name] = setting.metadata["parse"](given.value, given.name)
    known = {name for setting in fields(Configuration) for name in setting.metadata["names"]}
    warnings = [_judge(given, known) for given in last.values() if given.name not in known]
    return Loaded(Configuration(**values), tuple(warning for warning in warnings if warning))


def _judge(given: Property, known: set[str]) -> str | None:
    """Return a warning for a property without effect, or ``None`` for another program's. Raises :class:`UsageError` for
    an unsupported one."""
    if given.name in REFUSED:
        message = f"{given.name} is not supported"
        raise UsageError(given.name, found=repr(given.value), hint=REFUSED[given.name], message=message)
    where = f"{given.name} ({given.source})"
    if given.name in WITHOUT_EFFECT:
        return f"{where} has no effect: {WITHOUT_EFFECT[given.name]}"
    if given.name.startswith(OTHER_PROGRAMS) or not given.name.startswith("aeron."):
        # Files may be shared with an archive, but command-line arguments are meant for this driver.
        return f"{where} is not a property of the media driver" if given.source == "command line" else None
    near = difflib.get_close_matches(given.name, known, 1, 0.8)
    return f"{where} is unknown and has no effect" + (f"; did you mean {near[0]}?" if near else "")


def from_environment(environment: Mapping[str, str]) -> Iterator[Property]:
    """Yield the driver's properties from environment variables: ``AERON_TERM_BUFFER_LENGTH`` sets
    ``aeron.term.buffer.length``. Other ``AERON_*`` variables belong to other programs."""
    names = {name for setting in fields(Configuration) for name in setting.metadata["names"]}
    by_variable = {environment_name(name): name for name in (*names, *REFUSED, *WITHOUT_EFFECT)} | OTHER_NAMES
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable in by_variable:
            yield Property(by_variable[variable], value, f"environment: {variable}")


def environment_name(name: str) -> str:
    """The environment variable of a property."""
    return name.upper().replace(".", "_")


def read_properties(path: str) -> list[tuple[str, str]]:
    """Read names and values from a file in Java's property format, in order. Raises :class:`StoreUnavailable` if the
    file can't be read, and :class:`UsageError` for a malformed escape."""
    data = read_small_file(path, FILE_BYTES_MAX)
    return [_split(line, path) for line in _logical_lines(data.decode("latin-1"))]


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments and blank lines. A line that ends with an odd number of ``\\`` continues on the
    next."""
    waiting = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        part = line.lstrip(" \t\f")
        if not waiting and (not part or part[0] in "#!"):
            continue
        trailing = len(part) - len(part.rstrip("\\"))
        if trailing % 2:
            waiting += part[:-1]
            continue
        yield waiting + part
        waiting = ""
    if waiting:
        yield waiting


def _split(line: str, path: str) -> tuple[str, str]:
    """Split a line into name and value at the first ``=``, ``:`` or blank that is not escaped with ``\\``."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(line[:end], path), _unescape(rest, path)


def _unescape(text: str, path: str) -> str:
    result, at = [], 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter != "\\" or at == len(text):
            result.append(letter)
            continue
        letter = text[at]
        at += 1
        if letter == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                expected = "four hexadecimal digits after \\u"
                raise UsageError(
                    path,
                    found=f"'\\u{digits}'",
                    expected=expected,
                    message=f"{path}: expected {expected}, not '\\u{digits}'",
                )
            result.append(chr(int(digits, 16)))
            at += 4
        else:
            result.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(letter, letter))
    return "".join(result)
