"""A connection to a NATS server for a migration, and requests to JetStream's API, since nats-py's own client lacks some
features (a stream's first sequence, a purge by subject).

Source: JetStream's API, ``$JS.API.>``; ``server/jetstream_api.go`` of nats-server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

from everlog.core.files.regular_files import check_regular, unreadable
from everlog.core.json_text import parse_json
from everlog.errors import EverlogError, MissingDependency, StoreUnavailable, UsageError

USER_VARIABLE, PASSWORD_VARIABLE, TOKEN_VARIABLE = "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN"
API_TIMEOUT_S = 5.0
T = TypeVar("T")


class JetStreamRefused(EverlogError):
    """The server answered with an error. ``code`` is JetStream's ``err_code``."""

    def __init__(self, where: str, *, code: int = 0, **more: Any) -> None:
        super().__init__(where, **more)
        self.code = code


class ServerUnreachable(StoreUnavailable):
    """No server answers; it may come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach a server; only what may show in a query's plan. User, password and token come from the environment
    (``NATS_USER``, ``NATS_PASSWORD``, ``NATS_TOKEN``) or from files on the machines where the tasks run. ``patience_s``
    is how long a server may be away, or make no progress, before a channel's migration gives up."""

    servers: tuple[str, ...]
    creds_file: str | None = None
    nkey_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    domain: str | None = None
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        for url in self.servers:
            parts = _split(url)
            if parts.scheme not in ("nats", "tls", "ws", "wss") or not parts.hostname:
                raise UsageError(
                    "server", found=repr(parts.scheme + "://..."), expected="a URL such as nats://host:4222"
                )
            if parts.username or parts.password:
                hint = f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}, or {TOKEN_VARIABLE}, or give a credentials file"
                raise UsageError(
                    "server",
                    found="a user or a token in the URL",
                    message="the server's URL has a user or a token in it",
                    hint=hint,
                )
        if self.domain is not None and not re.fullmatch(r"[^\s.*>]+", self.domain):
            raise UsageError(
                "domain", found=repr(self.domain), expected="a name without dots, wildcards or white space"
            )
        if not self.patience_s >= 0:
            raise UsageError("patience", found=f"{self.patience_s:g}", expected="at least 0 seconds")
        if not self.servers:
            raise UsageError("server", found="none", message="no server given; give a URL such as nats://host:4222")
        if (self.cert_file is None) != (self.key_file is None):
            raise UsageError(
                "certificate",
                found="one of two files",
                message="a certificate needs its key, and a key its certificate",
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is required; then nothing is sent without it."""
        schemes = {urlsplit(url).scheme for url in self.servers}
        return bool(self.ca_file or self.cert_file or schemes & {"tls", "wss"})

    @property
    def api_prefix(self) -> str:
        """The prefix of the API's subjects, with or without a domain."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    def settings(self) -> dict[str, Any]:
        """Arguments for ``nats.connect``, read where the connection is made. Raises :class:`StoreUnavailable` for an
        unreadable file, :class:`UsageError` for invalid certificates."""
        self._check_files()
        found: dict[str, Any] = {"servers": list(self.servers), "name": "everlog migrate"}
        environ = os.environ
        if self.creds_file:
            found["user_credentials"] = self.creds_file
        elif self.nkey_file:
            found["nkeys_seed"] = self.nkey_file
        elif TOKEN_VARIABLE in environ:
            found["token"] = environ[TOKEN_VARIABLE]
        elif USER_VARIABLE in environ:
            found |= {"user": environ[USER_VARIABLE], "password": environ.get(PASSWORD_VARIABLE, "")}
        if self.ca_file or self.cert_file:
            found["tls"] = self._context()
        return found

    def _check_files(self) -> None:
        for path in filter(None, (self.creds_file, self.nkey_file, self.ca_file, self.cert_file, self.key_file)):
            try:
                check_regular(path)  # nats-py and OpenSSL open it by name
            except (OSError, ValueError) as error:
                raise unreadable(path, error) from error

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:  # includes ssl.SSLError for invalid certificates
            files = ", ".join(name for name in (self.ca_file, self.cert_file, self.key_file) if name)
            message = f"can't load certificates or key from {files}: {error}; they must be PEM files"
            raise UsageError(
                files, found=str(error), expected="certificates and a key in PEM", message=message
            ) from error
        return context


def _split(url: str) -> SplitResult:
    """Raises :class:`UsageError` without the URL, which may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError("server", found=str(error), expected="a URL such as nats://host:4222") from None
    return parts


class JetStream:
    """An open connection: ``async with JetStream(connection) as js``."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.nc: Any = None

    async def __aenter__(self) -> Self:
        self.nc = _client(self.connection.is_encrypted)
        settings = self.connection.settings()
        try:
            await self.nc.connect(
                **settings,
                error_cb=_ignore,
                connect_timeout=2,
                allow_reconnect=False,  # a new connection finds out what was lost with the old one
                max_reconnect_attempts=1,
            )
        except EverlogError:
            await self.nc.close()
            raise
        except Exception as error:
            raise self._unreachable(error) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.nc.close()

    def _unreachable(self, error: Exception, hint: str | None = None) -> ServerUnreachable:
        hosts = ", ".join(urlsplit(url).netloc for url in self.connection.servers)
        found = f"{type(error).__name__}: {error}".rstrip(": ")
        return ServerUnreachable(hosts, found=found, expected="a NATS server with JetStream", hint=hint)

    def _nobody(self) -> str:
        """A hint for the case that no one answers requests to the API."""
        if self.connection.domain:
            return f"nothing answers in domain {self.connection.domain!r}"
        return "JetStream is not enabled for this account, or it is in a domain"

    async def api(self, verb: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request to the API. Raises :class:`JetStreamRefused` for an error in the answer, and
        :class:`ServerUnreachable` if there is no answer or an invalid one."""
        from nats.errors import Error, NoRespondersError

        subject = f"{self.connection.api_prefix}.{verb}"
        try:
            answer = await self.nc.request(subject, json.dumps(request or {}).encode(), timeout=API_TIMEOUT_S)
            found: dict[str, Any] = parse_json(answer.data)
        except NoRespondersError as error:
            raise self._unreachable(error, self._nobody()) from error
        except (Error, OSError, TimeoutError, ValueError) as error:
            raise self._unreachable(error) from error
        if "error" in found:
            refused = found["error"]
            raise JetStreamRefused(
                f"JetStream {verb.partition('.')[0].lower()} {verb.rpartition('.')[2]}",
                code=int(refused.get("err_code", 0)),
                found=str(refused.get("description", "an error")),
                expected="success",
            )
        return found

    async def stream_info(self, stream: str) -> dict[str, Any] | None:
        """A stream's configuration and state; ``None`` if it does not exist."""
        try:
            return await self.api(f"STREAM.INFO.{stream}")
        except JetStreamRefused as error:
            if error.code == STREAM_NOT_FOUND:
                return None
            raise

    async def consumer_info(self, stream: str, consumer: str) -> dict[str, Any] | None:
        """A consumer's configuration and state; ``None`` if it does not exist."""
        try:
            return await self.api(f"CONSUMER.INFO.{stream}.{consumer}")
        except JetStreamRefused as error:
            if error.code == CONSUMER_NOT_FOUND:
                return None
            raise


def _client(is_encrypted: bool) -> Any:
    try:
        from nats.aio.client import Client
    except ImportError as error:
        hint = "pip install 'everlog[nats]'"
        message = "migrating to JetStream needs nats-py"
        raise MissingDependency("migrate", found="nats-py not installed", message=message, hint=hint) from error
    if not is_encrypted:
        return Client()
    from everlog.pipelines.migrate.client import EncryptedClient

    return EncryptedClient()


STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
MESSAGE_NOT_FOUND = 10037
WRONG_LAST_SEQUENCE = 10071
"""JetStream's ``err_code``. Source: ``server/errors.json`` of nats-server."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result; in a separate thread if this one already runs an event loop, as in a
    notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "everlog-migrate") as pool:
        return pool.submit(asyncio.run, work).result()


async def _ignore(error: Exception) -> None:
    """nats-py reports lost connections here; waiters notice by themselves."""
    await asyncio.sleep(0)
