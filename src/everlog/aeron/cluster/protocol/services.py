"""Messages between the consensus module and the services or tools of its node. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.cluster.protocol.values import OptionalFlag
from everlog.aeron.messages import Flag, Int32, Int64, Message, Since, Text


@dataclass(frozen=True, slots=True)
class CloseSession(Message):
    """A service wants a session closed."""

    template_id: ClassVar[int] = 30
    cluster_session_id: Int64


@dataclass(frozen=True, slots=True)
class ScheduleTimer(Message):
    """A service sets a timer, or changes the deadline of one that has not expired."""

    template_id: ClassVar[int] = 31
    correlation_id: Int64
    deadline: Annotated[Int64, "in the cluster's time unit"]


@dataclass(frozen=True, slots=True)
class CancelTimer(Message):
    """A service cancels a timer."""

    template_id: ClassVar[int] = 32
    correlation_id: Int64


@dataclass(frozen=True, slots=True)
class ServiceAck(Message):
    """A service has reached a position, or has taken an action there."""

    template_id: ClassVar[int] = 33
    log_position: Int64
    timestamp: Int64
    ack_id: Int64
    relevant_id: Annotated[Int64, "recording of a snapshot; the client's id of a service that started; -1"]
    service_id: Int32


@dataclass(frozen=True, slots=True)
class ClusterMembersQuery(Message):
    """Request the list of members."""

    template_id: ClassVar[int] = 34
    correlation_id: Int64
    extended: Annotated[OptionalFlag, Since(5), "1: answer with ClusterMembersExtendedResponse"] = None


@dataclass(frozen=True, slots=True)
class RemoveMember(Message):
    """Remove a member. Not used since version 12."""

    template_id: ClassVar[int] = 35
    member_id: Int32
    is_passive: Flag


@dataclass(frozen=True, slots=True)
class JoinLog(Message):
    """A service is to join a log."""

    template_id: ClassVar[int] = 40
    log_position: Int64
    max_log_position: Int64
    member_id: Int32
    log_session_id: Int32
    log_stream_id: Int32
    is_startup: Flag
    role: Annotated[Int32, "0 follower, 1 candidate, 2 leader"]
    is_standby: Annotated[OptionalFlag, Since(16)] = None
    log_channel: Text = ""


@dataclass(frozen=True, slots=True)
class ClusterMembersResponse(Message):
    """The members, in the cluster's notation."""

    template_id: ClassVar[int] = 41
    correlation_id: Int64
    leader_member_id: Int32
    active_members: Text
    passive_followers: Text


@dataclass(frozen=True, slots=True)
class ServiceTerminationPosition(Message):
    """A service is to terminate at a position."""

    template_id: ClassVar[int] = 42
    log_position: Int64
    ack_required: Annotated[OptionalFlag, Since(17)] = None


@dataclass(frozen=True, slots=True)
class MemberStatus(Message):
    """A member and how far it is."""

    leadership_term_id: Int64
    log_position: Int64
    time_of_last_append_ns: Int64
    member_id: Int32
    ingress_endpoint: Text
    consensus_endpoint: Text
    log_endpoint: Text
    catchup_endpoint: Text
    archive_endpoint: Text


@dataclass(frozen=True, slots=True)
class ClusterMembersExtendedResponse(Message):
    """The members and how far each is. Passive members have no vote."""

    template_id: ClassVar[int] = 43
    correlation_id: Int64
    current_time_ns: Int64
    leader_member_id: Int32
    member_id: Int32
    active_members: tuple[MemberStatus, ...]
    passive_members: tuple[MemberStatus, ...]


@dataclass(frozen=True, slots=True)
class RequestServiceAck(Message):
    """All services are to acknowledge a position."""

    template_id: ClassVar[int] = 108
    log_position: Int64


SERVICES: tuple[type[Message], ...] = (
    CloseSession,
    ScheduleTimer,
    CancelTimer,
    ServiceAck,
    ClusterMembersQuery,
    RemoveMember,
    JoinLog,
    ClusterMembersResponse,
    ServiceTerminationPosition,
    ClusterMembersExtendedResponse,
    RequestServiceAck,
)
