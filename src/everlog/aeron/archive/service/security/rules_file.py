"""A file that says who the clients of an archive are and what each may do::

    default = "deny"                            # what no rule names; "deny" is the default
    allow = ["ListRecordings", "Replay"]        # everybody

    [principal.operator]
    credentials = "a secret"
    allow = ["*"]

    [principal.viewer]
    credentials = "another one"
    deny = ["Replay"]

Requests have the names of Aeron's templates without ``Request``; ``*`` means all of them. What a principal's own lines
say counts before the lines for everybody. ``ArchiveId``, which clients ask for when they connect, is allowed to
everybody unless a line denies it. The format is TOML.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from everlog.aeron.archive.protocol.codec import SCHEMA_ID
from everlog.aeron.archive.protocol.requests import REQUESTS, ArchiveId
from everlog.aeron.archive.service.security.simple import Rules, SimpleAuthenticator, SimpleAuthorisationService
from everlog.core.files.regular_files import read_small_file
from everlog.errors import UsageError

MAX_FILE_BYTES = 1 << 20
ALL = "*"
_TEMPLATES = {kind.__name__: kind.template_id for kind in REQUESTS}


@dataclass(frozen=True, slots=True)
class Security:
    """What a rules file says, and a warning if others can read it."""

    authenticator: SimpleAuthenticator
    authorisation: SimpleAuthorisationService
    warning: str | None


def load_rules(path: str) -> Security:
    """Read a rules file. Raises :class:`StoreUnavailable` if it can't be read, :class:`UsageError` for a mistake in it;
    no error contains credentials."""
    text = read_small_file(path, MAX_FILE_BYTES)
    try:
        content = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        _refuse(path, "no TOML", "a TOML file of principals and rules")
    _check_names(path, "the file", content, {"default", "allow", "deny", "principal"})
    default = content.get("default", "deny")
    if default not in ("allow", "deny"):
        _refuse(f"{path}: default", "another value", "allow or deny")
    credentials: dict[bytes, bytes] = {}
    principals: dict[bytes, Rules] = {}
    table = content.get("principal", {})
    if not isinstance(table, dict):
        _refuse(f"{path}: principal", "a value", "tables, such as [principal.operator]")
    for name, entry in table.items():
        where = f"principal {name}"
        if not isinstance(entry, dict):
            _refuse(f"{path}: {where}", "a value", "a table")
        _check_names(path, where, entry, {"credentials", "allow", "deny"})
        secret = entry.get("credentials")
        if not isinstance(secret, str) or not secret:
            _refuse(f"{path}: {where}", "no credentials", 'credentials = "..."')
        if secret.encode() in credentials.values():
            _refuse(f"{path}: {where}", "credentials that another principal has", "credentials of its own")
        credentials[name.encode()] = secret.encode()
        principals[name.encode()] = _rules(path, where, entry)
    general = _rules(path, "the file", content)
    actions = {(SCHEMA_ID, ArchiveId.template_id): True, **general.actions}
    general = Rules(actions=actions, protocols=general.protocols)
    authorisation = SimpleAuthorisationService(principals, general, default=default == "allow")
    return Security(SimpleAuthenticator(credentials), authorisation, _warning(path))


def _rules(path: str, where: str, entry: Mapping[str, Any]) -> Rules:
    actions: dict[tuple[int, int], bool] = {}
    protocols: dict[int, bool] = {}
    for key, is_allowed in (("allow", True), ("deny", False)):
        names = entry.get(key, [])
        if not isinstance(names, list):
            _refuse(f"{path}: {where}", f"{key} is no list", "a list of requests")
        for name in names:
            if name == ALL:
                if SCHEMA_ID in protocols:
                    _refuse(f"{path}: {where}", "all requests both allowed and denied", "one of them")
                protocols[SCHEMA_ID] = is_allowed
                continue
            template_id = _TEMPLATES.get(name) if isinstance(name, str) else None
            if template_id is None:
                _refuse(f"{path}: {where}", f"request {name!r}", f"{ALL} or one of {', '.join(_TEMPLATES)}")
            if (SCHEMA_ID, template_id) in actions:
                _refuse(f"{path}: {where}", f"{name} twice", "one rule for each request")
            actions[SCHEMA_ID, template_id] = is_allowed
    return Rules(actions=actions, protocols=protocols)


def _check_names(path: str, where: str, entry: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(entry.keys() - known)
    if unknown:
        _refuse(f"{path}: {where}", ", ".join(unknown), ", ".join(sorted(known)))


def _warning(path: str) -> str | None:
    mode = os.stat(path).st_mode
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return f"{path} holds credentials and others can read it: chmod 600 {path}"
    return None


def _refuse(where: str, found: str, expected: str) -> NoReturn:
    raise UsageError(where, found=found, expected=expected)
