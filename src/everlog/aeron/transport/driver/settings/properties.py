"""Aeron's properties as they come: files as Java writes them, ``AERON_*`` of the environment as the C driver reads
them, ``name=value`` of a command line. The later of these three wins, and of two files the second.

Every property that Aeron's driver knows is honoured, or named in a warning or an error that says why it isn't.
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
"""Prefixes of properties of programs other than the driver, with which it shares files."""
DEBUG_ENDPOINTS = "it is for the channel endpoints that Aeron has for debugging"
WITHOUT_EFFECT = {
    "aeron.use.windows.high.res.timer": "it is for Windows",
    "aeron.driver.native.resource.agent.idle.strategy": "files are mapped by the conductor here",
    "aeron.driver.async.executor.enabled": "what it does is done by the conductor here",
    "aeron.driver.async.executor.idle.strategy": "what it does is done by the conductor here",
    "aeron.driver.async.executor.cpu.affinity": "what it does is done by the conductor here",
    "aeron.debug.receive.control.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.receive.control.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.receive.data.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.receive.data.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.send.control.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.send.control.loss.seed": DEBUG_ENDPOINTS,
    "aeron.debug.send.data.loss.rate": DEBUG_ENDPOINTS,
    "aeron.debug.send.data.loss.seed": DEBUG_ENDPOINTS,
    "aeron.thread.naming": "threads are always named as Aeron names them",
    "aeron.fallback.logger": "what can't be logged goes to stderr",
    "aeron.secure.random.algorithm": "random numbers come from the system",
    "aeron.enable.experimental.features": "there are none here",
    "aeron.debug.timeout": "nothing here waits for a debugger",
    "aeron.pre.touch.mapped.memory": "clients have it",
    "aeron.receiver.io.vector.capacity": "a batch of datagrams has a fixed size here",
    "aeron.sender.io.vector.capacity": "a batch of datagrams has a fixed size here",
    "aeron.network.publication.max.messages.per.send": "a batch of datagrams has a fixed size here",
    "aeron.driver.connect": "it is for Aeron's samples",
}
REFUSED = {
    "aeron.SendChannelEndpoint.supplier": "Java classes can't be run here",
    "aeron.ReceiveChannelEndpoint.supplier": "Java classes can't be run here",
    "aeron.flow.control.sm.applicationSpecificFeedback": "use aeron.receiver.group.tag, which replaced it",
    "aeron.PreferredMulticastFlowControl.asf": "use aeron.flow.control.group.tag, which replaced it",
    "aeron.udp.channel.incoming.interceptors": "C libraries can't be loaded here",
    "aeron.udp.channel.outgoing.interceptors": "C libraries can't be loaded here",
    "aeron.udp.channel.transport.bindings.media": "C libraries can't be loaded here",
    "aeron.conductor.udp.channel.transport.bindings.media": "C libraries can't be loaded here",
    "aeron.driver.dynamic.libraries": "C libraries can't be loaded here",
    "aeron.agent.on.start.function": "C libraries can't be loaded here",
    "aeron.name.resolver.supplier": "C libraries can't be loaded here; aeron.driver.resolver.* set Aeron's resolver",
    "aeron.name.resolver.init.args": "C libraries can't be loaded here; aeron.driver.resolver.* set Aeron's resolver",
    "aeron.conductor.cpu.affinity": "start the driver under taskset",
    "aeron.sender.cpu.affinity": "start the driver under taskset",
    "aeron.receiver.cpu.affinity": "start the driver under taskset",
    "aeron.driver.native.resource.agent.cpu.affinity": "start the driver under taskset",
    "aeron.driver.cpuset.affinity": "start the driver under taskset",
    "aeron.driver.cpuset.warnings.as.errors": "start the driver under taskset",
    "aeron.conductor.idle.strategy.init.args": "idle strategies have Aeron's default parameters",
    "aeron.sender.idle.strategy.init.args": "idle strategies have Aeron's default parameters",
    "aeron.receiver.idle.strategy.init.args": "idle strategies have Aeron's default parameters",
    "aeron.shared.idle.strategy.init.args": "idle strategies have Aeron's default parameters",
    "aeron.sharednetwork.idle.strategy.init.args": "idle strategies have Aeron's default parameters",
}
OTHER_NAMES = {"AERON_DRIVER_NAME_RESOLVER_THRESHOLD": "aeron.name.resolver.threshold"}
"""Names in the environment that are not the property's own in capitals."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property that was given, and where: a file, ``environment``, ``command line``."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and one line about each property that has no effect."""

    configuration: Configuration
    warnings: tuple[str, ...]


def load(files: Iterable[str] = (), environment: Mapping[str, str] | None = None, given: Iterable[str] = ()) -> Loaded:
    """``files``: paths; ``given``: ``name=value``. Raises :class:`UsageError` for values that are wrong and for
    properties that would change what the driver does and can't be honoured, :class:`StoreUnavailable` for files."""
    found: list[Property] = []
    for path in files:
        found.extend(Property(name, value, path) for name, value in read_properties(path))
    found.extend(from_environment(environment or {}))
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError("command line", found=repr(text), expected="NAME=VALUE")
        found.append(Property(name.strip(), value.strip(), "command line"))
    return resolve(found)


def resolve(found: Iterable[Property]) -> Loaded:
    """The configuration that properties give; of two with one name the last one counts."""
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
    """What to say about a property that is no setting here. Raises :class:`UsageError`."""
    if given.name in REFUSED:
        raise UsageError(given.name, found=repr(given.value), expected="nothing", hint=REFUSED[given.name])
    where = f"{given.name} ({given.source})"
    if given.name in WITHOUT_EFFECT:
        return f"{where} has no effect: {WITHOUT_EFFECT[given.name]}"
    if given.name.startswith(OTHER_PROGRAMS) or not given.name.startswith("aeron."):
        # A file may be shared with an archive; a command line was meant for this driver.
        return f"{where} is no property of the media driver" if given.source == "command line" else None
    near = difflib.get_close_matches(given.name, known, 1, 0.8)
    return f"{where} is not known and has no effect" + (f"; is {near[0]} meant?" if near else "")


def from_environment(environment: Mapping[str, str]) -> Iterator[Property]:
    """Settings of the driver in the environment: ``AERON_TERM_BUFFER_LENGTH`` is ``aeron.term.buffer.length``. Other
    ``AERON_*`` are other programs'."""
    names = {name for setting in fields(Configuration) for name in setting.metadata["names"]}
    by_variable = {environment_name(name): name for name in (*names, *REFUSED, *WITHOUT_EFFECT)} | OTHER_NAMES
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable in by_variable:
            yield Property(by_variable[variable], value, f"environment: {variable}")


def environment_name(name: str) -> str:
    """Of a property, in the environment."""
    return name.upper().replace(".", "_")


def read_properties(path: str) -> list[tuple[str, str]]:
    """Names and values of a file in Java's format, in order. Raises :class:`StoreUnavailable`, :class:`UsageError`."""
    data = read_small_file(path, FILE_BYTES_MAX)
    return [_split(line, path) for line in _logical_lines(data.decode("latin-1"))]


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends with an odd number of ``\\`` goes on in the next."""
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
    """Name and value: the first ``=``, ``:`` or blank that no ``\\`` stands before ends the name."""
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
                raise UsageError(path, found=f"'\\u{digits}'", expected="four hexadecimal digits behind \\u")
            result.append(chr(int(digits, 16)))
            at += 4
        else:
            result.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(letter, letter))
    return "".join(result)
