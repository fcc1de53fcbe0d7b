"""Messages between clients and a cluster: ingress and egress. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.cluster.protocol.values import (
    AdminRequestType,
    AdminResponseCode,
    EventCode,
    OptionalInt64,
    Version,
)
from everlog.aeron.messages import Bytes, Int32, Int64, Message, Number, Since, Text


@dataclass(frozen=True, slots=True)
class SessionMessageHeader(Message):
    """Precedes the payload of a client or a service, which is the rest of the message."""

    template_id: ClassVar[int] = 1
    leadership_term_id: Int64
    cluster_session_id: Int64
    timestamp: Annotated[Int64, "in the cluster's time unit"]


@dataclass(frozen=True, slots=True)
class SessionEvent(Message):
    """The answer to a connect request, or something that happened to a session. ``detail`` is an error's text, or the
    members' ingress endpoints."""

    template_id: ClassVar[int] = 2
    cluster_session_id: Int64
    correlation_id: Annotated[Int64, "of the request"]
    leadership_term_id: Int64
    leader_member_id: Int32
    code: Annotated[EventCode, Number("i", kind=EventCode)]
    version: Annotated[Version, Since(6), "of the cluster's protocol"] = None
    leader_heartbeat_timeout_ns: Annotated[OptionalInt64, Since(13)] = None
    detail: Text = ""


@dataclass(frozen=True, slots=True)
class SessionConnectRequest(Message):
    """Open a session."""

    template_id: ClassVar[int] = 3
    correlation_id: Int64
    response_stream_id: Int32
    version: Annotated[Version, Since(2), "of the client's protocol"] = None
    response_channel: Text = ""
    encoded_credentials: Bytes = b""
    client_info: Annotated[Text, Since(14)] = ""


@dataclass(frozen=True, slots=True)
class SessionCloseRequest(Message):
    """Close a session."""

    template_id: ClassVar[int] = 4
    leadership_term_id: Int64
    cluster_session_id: Int64


@dataclass(frozen=True, slots=True)
class SessionKeepAlive(Message):
    """Report that the client of a session is alive."""

    template_id: ClassVar[int] = 5
    leadership_term_id: Int64
    cluster_session_id: Int64


@dataclass(frozen=True, slots=True)
class NewLeaderEvent(Message):
    """The cluster has a new leader."""

    template_id: ClassVar[int] = 6
    leadership_term_id: Int64
    cluster_session_id: Int64
    leader_member_id: Int32
    ingress_endpoints: Text


@dataclass(frozen=True, slots=True)
class Challenge(Message):
    """The cluster wants other credentials."""

    template_id: ClassVar[int] = 7
    correlation_id: Int64
    cluster_session_id: Int64
    encoded_challenge: Bytes


@dataclass(frozen=True, slots=True)
class ChallengeResponse(Message):
    """A client's answer to a challenge."""

    template_id: ClassVar[int] = 8
    correlation_id: Int64
    cluster_session_id: Int64
    encoded_credentials: Bytes


@dataclass(frozen=True, slots=True)
class AdminRequest(Message):
    """An administrator's request. No request has a payload yet."""

    template_id: ClassVar[int] = 26
    leadership_term_id: Int64
    cluster_session_id: Int64
    correlation_id: Int64
    request_type: Annotated[AdminRequestType, Number("i", kind=AdminRequestType)]
    payload: Bytes = b""


@dataclass(frozen=True, slots=True)
class AdminResponse(Message):
    """The answer to an administrator's request. ``message`` is an error's text."""

    template_id: ClassVar[int] = 27
    cluster_session_id: Int64
    correlation_id: Int64
    request_type: Annotated[AdminRequestType, Number("i", kind=AdminRequestType)]
    response_code: Annotated[AdminResponseCode, Number("i", kind=AdminResponseCode)]
    message: Text = ""
    payload: Bytes = b""


SESSIONS: tuple[type[Message], ...] = (
    SessionMessageHeader,
    SessionEvent,
    SessionConnectRequest,
    SessionCloseRequest,
    SessionKeepAlive,
    NewLeaderEvent,
    Challenge,
    ChallengeResponse,
    AdminRequest,
    AdminResponse,
)
