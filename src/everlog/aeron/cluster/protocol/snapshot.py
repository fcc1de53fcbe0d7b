"""Messages of snapshots, beside those of sessions. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.cluster.protocol.values import (
    Capacity,
    CloseReason,
    OptionalInt64,
    OptionalTimeUnit,
    SnapshotMark,
    Version,
)
from everlog.aeron.messages import NULL_INT32, Bytes, Int32, Int64, Message, Number, Since, Text


@dataclass(frozen=True, slots=True)
class SnapshotMarker(Message):
    """Marks the beginning or end of the cluster's part of a snapshot. The service's state follows the end marker."""

    template_id: ClassVar[int] = 100
    type_id: Annotated[Int64, "1 consensus module, 2 service"]
    log_position: Int64
    leadership_term_id: Int64
    index: Int32
    mark: Annotated[SnapshotMark, Number("i", kind=SnapshotMark)]
    time_unit: Annotated[OptionalTimeUnit, Since(4), "if absent, milliseconds"] = None
    app_version: Annotated[Version, Since(4)] = None


@dataclass(frozen=True, slots=True)
class ClientSession(Message):
    """A client's session in a service's snapshot."""

    template_id: ClassVar[int] = 102
    cluster_session_id: Int64
    response_stream_id: Int32
    response_channel: Text
    encoded_principal: Bytes


@dataclass(frozen=True, slots=True)
class ClusterSession(Message):
    """A client's session in the consensus module's snapshot."""

    template_id: ClassVar[int] = 103
    cluster_session_id: Int64
    correlation_id: Int64
    opened_log_position: Int64
    time_of_last_activity: Annotated[Int64, "-1 if only the leader knows it"]
    close_reason: Annotated[
        CloseReason | None, Number("i", kind=CloseReason, null=NULL_INT32), "absent while the session is open"
    ]
    response_stream_id: Int32
    response_channel: Text


@dataclass(frozen=True, slots=True)
class Timer(Message):
    """A timer that has not expired yet."""

    template_id: ClassVar[int] = 104
    correlation_id: Int64
    deadline: Int64


@dataclass(frozen=True, slots=True)
class ConsensusModule(Message):
    """The consensus module's own state."""

    template_id: ClassVar[int] = 105
    next_session_id: Int64
    next_service_session_id: Annotated[OptionalInt64, Since(3)] = None
    log_service_session_id: Annotated[OptionalInt64, Since(3)] = None
    pending_message_capacity: Annotated[Capacity, Since(3)] = None


@dataclass(frozen=True, slots=True)
class ClusterMembers(Message):
    """The cluster's members. Only written by older versions."""

    template_id: ClassVar[int] = 106
    member_id: Int32
    high_member_id: Int32
    cluster_members: Text


@dataclass(frozen=True, slots=True)
class PendingMessageTracker(Message):
    """Precedes the session messages of a service that have not reached the log yet."""

    template_id: ClassVar[int] = 107
    next_service_session_id: Int64
    log_service_session_id: Int64
    pending_message_capacity: Capacity
    service_id: Int32


SNAPSHOT: tuple[type[Message], ...] = (
    SnapshotMarker,
    ClientSession,
    ClusterSession,
    Timer,
    ConsensusModule,
    ClusterMembers,
    PendingMessageTracker,
)
