"""Messages between members of a cluster, and to those that back it up. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.cluster.protocol.values import OptionalInt64, Version
from everlog.aeron.messages import (
    NULL_INT32,
    NULL_INT64,
    Bytes,
    Flag,
    Int32,
    Int64,
    Message,
    Since,
    Text,
    UInt8,
)

# Elections


@dataclass(frozen=True, slots=True)
class CanvassPosition(Message):
    """How far a member's log goes, before it stands for election."""

    template_id: ClassVar[int] = 50
    log_leadership_term_id: Annotated[Int64, "of the log's end"]
    log_position: Int64
    leadership_term_id: Int64
    follower_member_id: Int32
    protocol_version: Annotated[Version, Since(9)] = None


@dataclass(frozen=True, slots=True)
class RequestVote(Message):
    """A candidate wants a vote."""

    template_id: ClassVar[int] = 51
    log_leadership_term_id: Annotated[Int64, "of the log's end"]
    log_position: Int64
    candidate_term_id: Int64
    candidate_member_id: Int32
    protocol_version: Annotated[Version, Since(9)] = None


@dataclass(frozen=True, slots=True)
class Vote(Message):
    """A member's vote for or against a candidate."""

    template_id: ClassVar[int] = 52
    candidate_term_id: Int64
    log_leadership_term_id: Int64
    log_position: Int64
    candidate_member_id: Int32
    follower_member_id: Int32
    vote: Flag


@dataclass(frozen=True, slots=True)
class NewLeadershipTerm(Message):
    """The leader begins a term, or tells a member of the term after its log's end."""

    template_id: ClassVar[int] = 53
    log_leadership_term_id: Annotated[Int64, "the member's, of its log's end"]
    next_leadership_term_id: Annotated[Int64, "after the member's; -1: none"]
    next_term_base_log_position: Int64
    next_log_position: Annotated[Int64, "end of the next term; -1: it is open"]
    leadership_term_id: Annotated[Int64, "the leader's"]
    term_base_log_position: Int64
    log_position: Int64
    leader_recording_id: Int64
    timestamp: Annotated[Int64, "in the cluster's time unit"]
    leader_member_id: Int32
    log_session_id: Int32
    app_version: Version
    is_startup: Flag
    commit_position: Annotated[Int64, Since(15)] = NULL_INT64


# Replication of the log


@dataclass(frozen=True, slots=True)
class AppendPosition(Message):
    """How far a follower has recorded the log."""

    template_id: ClassVar[int] = 54
    leadership_term_id: Int64
    log_position: Int64
    follower_member_id: Int32
    flags: Annotated[UInt8, Since(8), "1: the follower is catching up"] = 0


@dataclass(frozen=True, slots=True)
class CommitPosition(Message):
    """How far a majority has recorded the log."""

    template_id: ClassVar[int] = 55
    leadership_term_id: Int64
    log_position: Int64
    leader_member_id: Int32


@dataclass(frozen=True, slots=True)
class CatchupPosition(Message):
    """A follower wants the log from a position on, at its catch-up endpoint."""

    template_id: ClassVar[int] = 56
    leadership_term_id: Int64
    log_position: Int64
    follower_member_id: Int32
    catchup_endpoint: Text


@dataclass(frozen=True, slots=True)
class StopCatchup(Message):
    """A follower has caught up."""

    template_id: ClassVar[int] = 57
    leadership_term_id: Int64
    follower_member_id: Int32


# Dynamic membership, which version 12 dropped


@dataclass(frozen=True, slots=True)
class AddPassiveMember(Message):
    """Add a member without a vote. Not used since version 12."""

    template_id: ClassVar[int] = 70
    correlation_id: Int64
    member_endpoints: Text


@dataclass(frozen=True, slots=True)
class ClusterMembersChange(Message):
    """The members after a change. Not used since version 12."""

    template_id: ClassVar[int] = 71
    correlation_id: Int64
    leader_member_id: Int32
    active_members: Text
    passive_members: Text


@dataclass(frozen=True, slots=True)
class SnapshotRecordingQuery(Message):
    """Request the latest snapshot's recordings. Not used since version 12."""

    template_id: ClassVar[int] = 72
    correlation_id: Int64
    request_member_id: Int32


@dataclass(frozen=True, slots=True)
class Snapshot(Message):
    """A part of a snapshot: its recording, and the service that it is of."""

    recording_id: Annotated[Int64, "in the archive of the member that answers"]
    leadership_term_id: Int64
    term_base_log_position: Int64
    log_position: Int64
    timestamp: Annotated[Int64, "in the cluster's time unit"]
    service_id: Annotated[Int32, "-1: consensus module"]


@dataclass(frozen=True, slots=True)
class SnapshotRecordings(Message):
    """The latest snapshot's recordings. Not used since version 12."""

    template_id: ClassVar[int] = 73
    correlation_id: Int64
    snapshots: tuple[Snapshot, ...]
    member_endpoints: Text


@dataclass(frozen=True, slots=True)
class JoinCluster(Message):
    """A member without a vote gets one. Not used since version 12."""

    template_id: ClassVar[int] = 74
    leadership_term_id: Int64
    member_id: Int32


# Termination


@dataclass(frozen=True, slots=True)
class TerminationPosition(Message):
    """Members are to terminate at a position."""

    template_id: ClassVar[int] = 75
    leadership_term_id: Int64
    log_position: Int64


@dataclass(frozen=True, slots=True)
class TerminationAck(Message):
    """A member has reached the position at which it terminates."""

    template_id: ClassVar[int] = 76
    leadership_term_id: Int64
    log_position: Int64
    member_id: Int32


# Backup and standby


@dataclass(frozen=True, slots=True)
class BackupQuery(Message):
    """Request what a backup needs."""

    template_id: ClassVar[int] = 77
    correlation_id: Int64
    response_stream_id: Int32
    version: Annotated[Version, Since(2), "of the client's protocol"] = None
    log_position: Annotated[OptionalInt64, Since(16)] = None
    response_channel: Text = ""
    encoded_credentials: Bytes = b""


@dataclass(frozen=True, slots=True)
class BackupResponse(Message):
    """What a backup needs: the log's recording and terms, and the latest snapshot's recordings."""

    template_id: ClassVar[int] = 78
    correlation_id: Int64
    log_recording_id: Int64
    log_leadership_term_id: Int64
    log_term_base_log_position: Int64
    last_leadership_term_id: Int64
    last_term_base_log_position: Int64
    commit_position_counter_id: Int32
    leader_member_id: Int32
    member_id: Annotated[Int32, Since(10), "of the member that answers"] = NULL_INT32
    snapshots: tuple[Snapshot, ...] = ()
    cluster_members: Text = ""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest(Message):
    """Request a sign of life."""

    template_id: ClassVar[int] = 79
    correlation_id: Int64
    response_stream_id: Int32
    response_channel: Text
    encoded_credentials: Bytes


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(Message):
    """A sign of life."""

    template_id: ClassVar[int] = 80
    correlation_id: Int64


@dataclass(frozen=True, slots=True)
class RemoteSnapshot(Message):
    """A part of a snapshot in another node's archive."""

    recording_id: Annotated[Int64, "in the archive at the endpoint"]
    leadership_term_id: Int64
    term_base_log_position: Int64
    log_position: Int64
    timestamp: Annotated[Int64, "in the cluster's time unit"]
    service_id: Annotated[Int32, "-1: consensus module"]
    archive_endpoint: Text


@dataclass(frozen=True, slots=True)
class StandbySnapshot(Message):
    """A standby node has taken a snapshot."""

    template_id: ClassVar[int] = 81
    correlation_id: Int64
    version: Int32
    response_stream_id: Int32
    snapshots: tuple[RemoteSnapshot, ...]
    response_channel: Text
    encoded_credentials: Bytes


CONSENSUS: tuple[type[Message], ...] = (
    CanvassPosition,
    RequestVote,
    Vote,
    NewLeadershipTerm,
    AppendPosition,
    CommitPosition,
    CatchupPosition,
    StopCatchup,
    AddPassiveMember,
    ClusterMembersChange,
    SnapshotRecordingQuery,
    SnapshotRecordings,
    JoinCluster,
    TerminationPosition,
    TerminationAck,
    BackupQuery,
    BackupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    StandbySnapshot,
)
