"""Messages that the consensus module appends to the log, beside those of sessions. Times are in the cluster's time
unit. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.cluster.protocol.values import (
    ChangeType,
    CloseReason,
    ClusterAction,
    OptionalInt32,
    OptionalTimeUnit,
    Version,
)
from everlog.aeron.messages import Bytes, Int32, Int64, Message, Number, Since, Text


@dataclass(frozen=True, slots=True)
class TimerEvent(Message):
    """A timer of a service expired."""

    template_id: ClassVar[int] = 20
    leadership_term_id: Int64
    correlation_id: Int64
    timestamp: Int64


@dataclass(frozen=True, slots=True)
class SessionOpenEvent(Message):
    """A client's session was opened."""

    template_id: ClassVar[int] = 21
    leadership_term_id: Int64
    correlation_id: Int64
    cluster_session_id: Int64
    timestamp: Int64
    response_stream_id: Int32
    response_channel: Text
    encoded_principal: Bytes


@dataclass(frozen=True, slots=True)
class SessionCloseEvent(Message):
    """A client's session was closed."""

    template_id: ClassVar[int] = 22
    leadership_term_id: Int64
    cluster_session_id: Int64
    timestamp: Int64
    close_reason: Annotated[CloseReason, Number("i", kind=CloseReason)]


@dataclass(frozen=True, slots=True)
class ClusterActionRequest(Message):
    """An action that all nodes take at this position."""

    template_id: ClassVar[int] = 23
    leadership_term_id: Int64
    log_position: Annotated[Int64, "end of this message"]
    timestamp: Int64
    action: Annotated[ClusterAction, Number("i", kind=ClusterAction)]
    flags: Annotated[OptionalInt32, Since(11), "0 all nodes, 1 standby nodes only"] = None


@dataclass(frozen=True, slots=True)
class NewLeadershipTermEvent(Message):
    """The first message of each term."""

    template_id: ClassVar[int] = 24
    leadership_term_id: Int64
    log_position: Annotated[Int64, "end of this message"]
    timestamp: Int64
    term_base_log_position: Int64
    leader_member_id: Int32
    log_session_id: Int32
    time_unit: Annotated[OptionalTimeUnit, Since(4), "if absent, milliseconds"] = None
    app_version: Annotated[Version, Since(4), "of the services"] = None


@dataclass(frozen=True, slots=True)
class MembershipChangeEvent(Message):
    """A member joined or quit. Only written by older versions, which had dynamic membership."""

    template_id: ClassVar[int] = 25
    leadership_term_id: Int64
    log_position: Int64
    timestamp: Int64
    leader_member_id: Int32
    cluster_size: Int32
    change_type: Annotated[ChangeType, Number("i", kind=ChangeType)]
    member_id: Int32
    cluster_members: Text


LOG: tuple[type[Message], ...] = (
    TimerEvent,
    SessionOpenEvent,
    SessionCloseEvent,
    ClusterActionRequest,
    NewLeadershipTermEvent,
    MembershipChangeEvent,
)
