"""Options of a client. Names and defaults are those of Aeron's ``AeronArchive.Context``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypedDict

from everlog.aeron.archive.client.credentials import CredentialsSupplier, NoCredentials
from everlog.aeron.archive.client.values import ErrorResponse
from everlog.aeron.archive.protocol.responses import RecordingSignalEvent
from everlog.aeron.channel_uri import ChannelUri
from everlog.core.options import fill
from everlog.errors import UsageError
from everlog.time_units import NS_PER_MS
from everlog.version import __version__

MAX_NAME_LENGTH = 100
MAX_CLIENT_INFO = 4096
INT32 = range(-(1 << 31), 1 << 31)

SignalHandler = Callable[[RecordingSignalEvent], object]
ErrorHandler = Callable[[ErrorResponse], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveClientOptions:
    """Options of :meth:`AeronArchive.connect`. Lengths are in bytes; each duration's name ends with its unit."""

    control_request_channel: str = ""
    """Channel of the archive's requests; must be set. An archive on this machine has ``aeron:ipc?term-length=64k``."""
    control_request_stream_id: int = 10
    control_response_channel: str = ""
    """Channel of the answers; must be set. For UDP an endpoint of this host, such as ``aeron:udp?endpoint=host:0``,
    or ``control-mode=response`` with the archive's control address."""
    control_response_stream_id: int = 20
    recording_events_channel: str | None = None
    """Channel of the archive's recording events."""
    recording_events_stream_id: int = 30
    message_timeout_ms: int = 10_000
    """How long to connect, and how long each request waits for its answer."""
    message_retry_attempts: int = 3
    """How often a request is offered in a row while its stream is full. After that it waits for the next poll, until
    its timeout."""
    control_term_buffer_length: int = 64 << 10
    control_term_buffer_sparse: bool = True
    control_mtu_length: int = 1408
    aeron_directory_name: str | Path | None = None
    """The media driver's folder, if no Aeron client is given."""
    client_name: str = ""
    """At most 100 ASCII characters; the archive's counters and logs show it."""
    client_info: str | None = None
    """What the archive shows of the client; by default its name and version."""
    credentials_supplier: CredentialsSupplier = field(default_factory=NoCredentials, repr=False)
    on_recording_signal: SignalHandler | None = None
    """Called with each recording signal, in the thread that polls."""
    on_error: ErrorHandler | None = None
    """Called with each error that answers no request; without it, ``check_for_error_response`` raises them."""
    poll_interval_s: float | None = None
    """Poll in a background thread, this often at least: the archive ends the session of a client that does not read
    its signals and pings. By default the program polls."""
    reconnect: bool = False
    """Whether the first call after a lost session opens a new one."""

    def __post_init__(self) -> None:
        for name in ("control_request_channel", "control_response_channel"):
            if not getattr(self, name):
                raise UsageError(name, message=f"{name} must be set")
            ChannelUri.parse(getattr(self, name))
        for name in ("control_request_stream_id", "control_response_stream_id", "recording_events_stream_id"):
            if getattr(self, name) not in INT32:
                raise UsageError(name, found=str(getattr(self, name)), expected="a 32-bit number")
        for name in ("message_timeout_ms", "message_retry_attempts"):
            if getattr(self, name) <= 0:
                raise UsageError(name, found=str(getattr(self, name)), expected="more than 0")
        if self.poll_interval_s is not None and self.poll_interval_s <= 0:
            raise UsageError("poll_interval_s", found=str(self.poll_interval_s), expected="more than 0")
        for name, most in (("client_name", MAX_NAME_LENGTH), ("client_info", MAX_CLIENT_INFO)):
            text = getattr(self, name) or ""
            if len(text) > most or not text.isascii():
                raise UsageError(name, found=repr(text), expected=f"at most {most} ASCII characters")

    @property
    def message_timeout_ns(self) -> int:
        """:attr:`message_timeout_ms` in nanoseconds."""
        return self.message_timeout_ms * NS_PER_MS

    @property
    def shown_client_info(self) -> str:
        """:attr:`client_info`, or its default."""
        if self.client_info is not None:
            return self.client_info
        return f"name={self.client_name} version={__version__} commit=everlog"

    @property
    def has_response_channel(self) -> bool:
        """Whether answers come over a response channel (``control-mode=response``)."""
        return ChannelUri.parse(self.control_response_channel).get("control-mode") == "response"

    def with_defaults(self, channel: str) -> ChannelUri:
        """A control channel with the parameters that it leaves to these options."""
        uri = ChannelUri.parse(channel)
        defaults = {
            "term-length": str(self.control_term_buffer_length),
            "mtu": str(self.control_mtu_length),
            "sparse": str(self.control_term_buffer_sparse).lower(),
        }
        return uri.with_params({key: value for key, value in defaults.items() if uri.get(key) is None})


class ArchiveClientKeywords(TypedDict, total=False):
    """The fields of :class:`ArchiveClientOptions` as keyword arguments."""

    control_request_channel: str
    control_request_stream_id: int
    control_response_channel: str
    control_response_stream_id: int
    recording_events_channel: str | None
    recording_events_stream_id: int
    message_timeout_ms: int
    message_retry_attempts: int
    control_term_buffer_length: int
    control_term_buffer_sparse: bool
    control_mtu_length: int
    aeron_directory_name: str | Path | None
    client_name: str
    client_info: str | None
    credentials_supplier: CredentialsSupplier
    on_recording_signal: SignalHandler | None
    on_error: ErrorHandler | None
    poll_interval_s: float | None
    reconnect: bool


def with_keywords(options: ArchiveClientOptions | None, keywords: ArchiveClientKeywords) -> ArchiveClientOptions:
    """A copy of ``options`` with some fields replaced. Raises :class:`UsageError` for an unknown name or a wrong
    value."""
    given = {} if options is None else {each.name: getattr(options, each.name) for each in fields(options)}
    return fill(ArchiveClientOptions, {**given, **keywords})
