"""A client of any archive, ours or Aeron's own. Start with :class:`AeronArchive` or :class:`AsyncAeronArchive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.aeron.archive.client.asynchronous.archive import AsyncAeronArchive as AsyncAeronArchive
    from everlog.aeron.archive.client.asynchronous.replayed import AsyncReplayedMessages as AsyncReplayedMessages
    from everlog.aeron.archive.client.asynchronous.signals import AsyncSignalStream as AsyncSignalStream
    from everlog.aeron.archive.client.blocking.archive import AeronArchive as AeronArchive
    from everlog.aeron.archive.client.blocking.replayed import ReplayedMessages as ReplayedMessages
    from everlog.aeron.archive.client.blocking.signals import SignalStream as SignalStream
    from everlog.aeron.archive.client.connection.core import ClientState as ClientState
    from everlog.aeron.archive.client.credentials import Credentials as Credentials
    from everlog.aeron.archive.client.credentials import CredentialsSupplier as CredentialsSupplier
    from everlog.aeron.archive.client.credentials import NoCredentials as NoCredentials
    from everlog.aeron.archive.client.errors import ArchiveTimeout as ArchiveTimeout
    from everlog.aeron.archive.client.errors import SessionLost as SessionLost
    from everlog.aeron.archive.client.machine.session import RequestRecord as RequestRecord
    from everlog.aeron.archive.client.machine.session import SessionRecord as SessionRecord
    from everlog.aeron.archive.client.options import ArchiveClientOptions as ArchiveClientOptions
    from everlog.aeron.archive.client.recording_events import RecordingEvents as RecordingEvents
    from everlog.aeron.archive.client.values import ErrorResponse as ErrorResponse
    from everlog.aeron.archive.client.values import RecordingDescriptor as RecordingDescriptor
    from everlog.aeron.archive.client.values import ReplayParams as ReplayParams
    from everlog.aeron.archive.client.values import SubscriptionDescriptor as SubscriptionDescriptor
    from everlog.aeron.archive.protocol.requests import SourceLocation as SourceLocation
    from everlog.aeron.archive.protocol.responses import RecordingSignalEvent as RecordingSignalEvent
    from everlog.aeron.archive.recording.events import RecordingSignal as RecordingSignal
    from everlog.aeron.archive.recording.refusals import ArchiveError as ArchiveError
    from everlog.aeron.archive.recording.refusals import ErrorCode as ErrorCode
else:
    _client = "everlog.aeron.archive.client"
    _homes = {
        "AeronArchive": f"{_client}.blocking.archive",
        "ArchiveClientOptions": f"{_client}.options",
        "ArchiveError": "everlog.aeron.archive.recording.refusals",
        "ArchiveTimeout": f"{_client}.errors",
        "AsyncAeronArchive": f"{_client}.asynchronous.archive",
        "AsyncReplayedMessages": f"{_client}.asynchronous.replayed",
        "AsyncSignalStream": f"{_client}.asynchronous.signals",
        "ClientState": f"{_client}.connection.core",
        "Credentials": f"{_client}.credentials",
        "CredentialsSupplier": f"{_client}.credentials",
        "ErrorCode": "everlog.aeron.archive.recording.refusals",
        "ErrorResponse": f"{_client}.values",
        "NoCredentials": f"{_client}.credentials",
        "RecordingDescriptor": f"{_client}.values",
        "RecordingEvents": f"{_client}.recording_events",
        "RecordingSignal": "everlog.aeron.archive.recording.events",
        "RecordingSignalEvent": "everlog.aeron.archive.protocol.responses",
        "ReplayParams": f"{_client}.values",
        "ReplayedMessages": f"{_client}.blocking.replayed",
        "RequestRecord": f"{_client}.machine.session",
        "SessionLost": f"{_client}.errors",
        "SessionRecord": f"{_client}.machine.session",
        "SignalStream": f"{_client}.blocking.signals",
        "SourceLocation": "everlog.aeron.archive.protocol.requests",
        "SubscriptionDescriptor": f"{_client}.values",
    }
    # Each module is imported when its name is first used: a blocking program imports no asyncio client.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
