"""The structs of a cluster node's files. All are little-endian.

Messages of the log and of snapshots follow an SBE message header (schema 111). Older writers omit the last fields of a
block; the block length in the header is then smaller. Times are in the cluster's time unit.
"""

from __future__ import annotations

from everlog.layout import Layout, data, gap, i32, i64, u16

NULL_INT = -(1 << 31)
NULL_LONG = -(1 << 63)

TIME_UNITS = {0: "MILLIS", 1: "MICROS", 2: "NANOS"}
CLOSE_REASONS = {0: "CLIENT_ACTION", 1: "SERVICE_ACTION", 2: "TIMEOUT"}
CLUSTER_ACTIONS = {0: "SUSPEND", 1: "RESUME", 2: "SNAPSHOT"}
SNAPSHOT_MARKS = {0: "BEGIN", 1: "SECTION", 2: "END"}
CHANGE_TYPES = {0: "JOIN", 1: "QUIT"}
COMPONENTS = {0: "UNKNOWN", 1: "CONSENSUS_MODULE", 2: "CONTAINER", 3: "BACKUP", 4: "STANDBY"}

_CODECS = "aeron-cluster-codecs.xml"


class RecordingLogEntry(Layout, size=48, title="recording.log: an entry", source="RecordingLog"):
    """A leadership term or a snapshot. A standby snapshot continues with its archive endpoint: a length (i32) and ASCII
    text. Entries start at multiples of 64 bytes and have at most 4096 bytes."""

    recording_id: int = i64(0, "in the node's archive; for a standby snapshot, in the archive at the endpoint")
    leadership_term_id: int = i64(8)
    term_base_log_position: int = i64(16, "log position at which the term begins")
    log_position: int = i64(24, "end of the term, -1 while it is open; for a snapshot, the position it was taken at")
    timestamp: int = i64(32, "in the cluster's time unit")
    service_id: int = i32(40, "the service of a snapshot, -1 for the consensus module; -1 for a term")
    entry_type: int = i32(44, "0 term, 1 snapshot, 2 standby snapshot; highest bit: invalid; -1: removed")


class NodeStateHeader(
    Layout, size=8, title="node-state.dat: header", source="aeron-cluster-node-state-codecs.xml, nodeStateHeader"
):
    """Starts ``node-state.dat``. Messages follow at multiples of 8 bytes, each after a frame header."""

    version: int = i32(0, "major << 16 | minor << 8 | patch, as in the mark file")
    _padding = gap(4, 4)


class NodeStateFrame(
    Layout,
    size=16,
    title="node-state.dat: frame header",
    source="aeron-cluster-node-state-codecs.xml, messageHeader; schema 112",
):
    """Precedes each message. The last message has template 304 (the footer)."""

    block_length: int = u16(0)
    template_id: int = u16(2, "301 candidate term, 303 cluster members, 304 footer")
    schema_id: int = u16(4, "112")
    version: int = u16(6)
    frame_length: int = i32(8, "including this header, without padding")
    _padding = gap(12, 4)


class CandidateTerm(
    Layout, size=24, title="node-state.dat: candidate term", source="aeron-cluster-node-state-codecs.xml, 301"
):
    """The highest leadership term that the node stood or voted for."""

    candidate_term_id: int = i64(0, "-1 if none yet; written last")
    timestamp: int = i64(8, "milliseconds since 1970")
    log_position: int = i64(16, "end of the node's log at that time")


class ClusterMarkHeader(
    Layout,
    size=128,
    title="Cluster mark file header",
    source="aeron-cluster-mark-codecs.xml, MarkFileHeader",
    var_data=(
        "aeron_directory",
        "control_channel",
        "ingress_channel",
        "service_name",
        "authenticator",
        "services_cluster_dir",
    ),
):
    """The header of ``cluster-mark.dat`` and ``cluster-mark-service-N.dat``. It follows an SBE message header (template
    200, schema 110), which older files lack. Version 1 of the schema added the last text."""

    version: int = i32(0, "major << 16 | minor << 8 | patch; 0 during the start, -1 if the start failed")
    component_type: int = i32(4, "1 consensus module, 2 container of a service, 3 backup, 4 standby", names=COMPONENTS)
    activity_timestamp: int = i64(
        8, "heartbeat, about every second, in milliseconds since 1970; -1 after a clean close"
    )
    start_timestamp: int = i64(16)
    pid: int = i64(24)
    candidate_term_id: int = i64(32, "used by older versions; now in node-state.dat")
    archive_stream_id: int = i32(40)
    service_stream_id: int = i32(44)
    consensus_module_stream_id: int = i32(48)
    ingress_stream_id: int = i32(52)
    member_id: int = i32(56)
    service_id: int = i32(60, "-1: consensus module")
    header_length: int = i32(64, "offset of the error log")
    error_buffer_length: int = i32(68)
    cluster_id: int = i32(72)
    _unused = gap(76, 52)


class SessionMessageHeader(Layout, size=24, title="Log: session message", source=f"{_CODECS}, SessionMessageHeader, 1"):
    """Precedes a client's or a service's payload, which is the rest of the message."""

    leadership_term_id: int = i64(0)
    cluster_session_id: int = i64(8)
    timestamp: int = i64(16)


class TimerEvent(Layout, size=24, title="Log: timer", source=f"{_CODECS}, TimerEvent, 20"):
    """A timer of a service expired."""

    leadership_term_id: int = i64(0)
    correlation_id: int = i64(8)
    timestamp: int = i64(16)


class SessionOpenEvent(
    Layout,
    size=36,
    title="Log: session opened",
    source=f"{_CODECS}, SessionOpenEvent, 21",
    var_data=("response_channel", data("encoded_principal")),
):
    """A client's session was opened."""

    leadership_term_id: int = i64(0)
    correlation_id: int = i64(8)
    cluster_session_id: int = i64(16)
    timestamp: int = i64(24)
    response_stream_id: int = i32(32)


class SessionCloseEvent(Layout, size=28, title="Log: session closed", source=f"{_CODECS}, SessionCloseEvent, 22"):
    """A client's session was closed."""

    leadership_term_id: int = i64(0)
    cluster_session_id: int = i64(8)
    timestamp: int = i64(16)
    close_reason: int = i32(24, "0 by the client, 1 by the service, 2 timeout", names=CLOSE_REASONS, null=NULL_INT)


class ClusterActionRequest(Layout, size=32, title="Log: cluster action", source=f"{_CODECS}, ClusterActionRequest, 23"):
    """An action that all nodes take at this position."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8, "end of this message")
    timestamp: int = i64(16)
    action: int = i32(24, "0 suspend, 1 resume, 2 snapshot", names=CLUSTER_ACTIONS, null=NULL_INT)
    flags: int = i32(28, "since version 11; 0 all nodes, 1 standby nodes only", null=NULL_INT)


class NewLeadershipTermEvent(
    Layout, size=48, title="Log: new leadership term", source=f"{_CODECS}, NewLeadershipTermEvent, 24"
):
    """The first message of each term."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8, "end of this message")
    timestamp: int = i64(16)
    term_base_log_position: int = i64(24)
    leader_member_id: int = i32(32)
    log_session_id: int = i32(36)
    time_unit: int = i32(40, "since version 4; if absent, milliseconds", names=TIME_UNITS, null=NULL_INT)
    app_version: int = i32(44, "since version 4; the services' version, major << 16 | minor << 8 | patch", null=0)


class MembershipChangeEvent(
    Layout,
    size=40,
    title="Log: membership change",
    source=f"{_CODECS}, MembershipChangeEvent, 25",
    var_data=("cluster_members",),
):
    """A member joined or quit. Only written by older versions, which had dynamic membership."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8)
    timestamp: int = i64(16)
    leader_member_id: int = i32(24)
    cluster_size: int = i32(28)
    change_type: int = i32(32, "0 join, 1 quit", names=CHANGE_TYPES, null=NULL_INT)
    member_id: int = i32(36)


class SnapshotMarker(Layout, size=40, title="Snapshot: marker", source=f"{_CODECS}, SnapshotMarker, 100"):
    """Marks the begin or end of the cluster's part of a snapshot. The service's own state follows the end marker."""

    type_id: int = i64(0, "1 consensus module, 2 service")
    log_position: int = i64(8)
    leadership_term_id: int = i64(16)
    index: int = i32(24)
    mark: int = i32(28, "0 begin, 1 section, 2 end", names=SNAPSHOT_MARKS, null=NULL_INT)
    time_unit: int = i32(32, "since version 4; if absent, milliseconds", names=TIME_UNITS, null=NULL_INT)
    app_version: int = i32(36, "since version 4", null=0)


class ClientSession(
    Layout,
    size=12,
    title="Snapshot: a service's session",
    source=f"{_CODECS}, ClientSession, 102",
    var_data=("response_channel", data("encoded_principal")),
):
    """A client's session in a service's snapshot."""

    cluster_session_id: int = i64(0)
    response_stream_id: int = i32(8)


class ClusterSession(
    Layout,
    size=40,
    title="Snapshot: a consensus module's session",
    source=f"{_CODECS}, ClusterSession, 103",
    var_data=("response_channel",),
):
    """A client's session in the consensus module's snapshot."""

    cluster_session_id: int = i64(0)
    correlation_id: int = i64(8)
    opened_log_position: int = i64(16)
    time_of_last_activity: int = i64(24, "-1 if only the leader knows it")
    close_reason: int = i32(32, "absent while the session is open", names=CLOSE_REASONS, null=NULL_INT)
    response_stream_id: int = i32(36)


class ScheduledTimer(Layout, size=16, title="Snapshot: a timer", source=f"{_CODECS}, Timer, 104"):
    """A timer that has not expired yet."""

    correlation_id: int = i64(0)
    deadline: int = i64(8)


class ConsensusModuleState(
    Layout, size=28, title="Snapshot: consensus module", source=f"{_CODECS}, ConsensusModule, 105"
):
    """The consensus module's own state. Version 3 added all fields but the first."""

    next_session_id: int = i64(0)
    next_service_session_id: int = i64(8, null=NULL_LONG)
    log_service_session_id: int = i64(16, null=NULL_LONG)
    pending_message_capacity: int = i32(24, null=0)


class ClusterMembers(
    Layout,
    size=8,
    title="Snapshot: cluster members",
    source=f"{_CODECS}, ClusterMembers, 106",
    var_data=("cluster_members",),
):
    """The cluster's members. Only written by older versions."""

    member_id: int = i32(0)
    high_member_id: int = i32(4)


class PendingMessageTracker(
    Layout, size=24, title="Snapshot: a service's pending messages", source=f"{_CODECS}, PendingMessageTracker, 107"
):
    """Precedes the session messages of a service that have not reached the log yet."""

    next_service_session_id: int = i64(0)
    log_service_session_id: int = i64(8)
    pending_message_capacity: int = i32(16, null=0)
    service_id: int = i32(20)
