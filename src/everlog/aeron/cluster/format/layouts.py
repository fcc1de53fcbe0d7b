"""Every struct of a cluster node's folder, declared once. All are little-endian.

Messages of the log and of snapshots come behind an SBE message header (schema 111). Writers of older versions leave the
last fields of a block out, and its length in the header tells so. Times are in the cluster's unit.
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
    """A leadership term or a snapshot. A standby snapshot's archive endpoint (ASCII) follows, behind its length (i32).
    Entries begin at multiples of 64 bytes and have 4096 at most."""

    recording_id: int = i64(0, "in the node's archive; of a standby snapshot, in the archive at the endpoint")
    leadership_term_id: int = i64(8)
    term_base_log_position: int = i64(16, "where the term begins in the log")
    log_position: int = i64(24, "where the term ended, -1 while it is open; where the snapshot was taken")
    timestamp: int = i64(32, "in the cluster's unit")
    service_id: int = i32(40, "of a snapshot: -1 the consensus module's; of a term: -1")
    entry_type: int = i32(44, "0 term, 1 snapshot, 2 standby snapshot; highest bit: invalid; -1: removed")


class NodeStateHeader(
    Layout, size=8, title="node-state.dat: header", source="aeron-cluster-node-state-codecs.xml, nodeStateHeader"
):
    """At the start of ``node-state.dat``. Messages follow, each behind a frame header, at multiples of 8 bytes."""

    version: int = i32(0, "major << 16 | minor << 8 | patch, as the mark file's")
    _padding = gap(4, 4)


class NodeStateFrame(
    Layout,
    size=16,
    title="node-state.dat: frame header",
    source="aeron-cluster-node-state-codecs.xml, messageHeader; schema 112",
):
    """Before each message; a message of template 304 (the footer) is the last one."""

    block_length: int = u16(0)
    template_id: int = u16(2, "301 candidate term, 303 cluster members, 304 footer")
    schema_id: int = u16(4, "112")
    version: int = u16(6)
    frame_length: int = i32(8, "with this header, without padding")
    _padding = gap(12, 4)


class CandidateTerm(
    Layout, size=24, title="node-state.dat: candidate term", source="aeron-cluster-node-state-codecs.xml, 301"
):
    """The highest leadership term that the node stood or voted for."""

    candidate_term_id: int = i64(0, "-1: none yet; written last")
    timestamp: int = i64(8, "milliseconds since 1970")
    log_position: int = i64(16, "where the node's log ended then")


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
    """Of ``cluster-mark.dat`` and ``cluster-mark-service-N.dat``: behind an SBE message header (template 200, schema
    110); older ones have none. The last text came with version 1 of the schema."""

    version: int = i32(0, "major << 16 | minor << 8 | patch; 0 while it is starting, -1 when starting failed")
    component_type: int = i32(4, "1 consensus module, 2 container of a service, 3 backup, 4 standby", names=COMPONENTS)
    activity_timestamp: int = i64(8, "milliseconds since 1970, about once a second; -1 after a clean close")
    start_timestamp: int = i64(16)
    pid: int = i64(24)
    candidate_term_id: int = i64(32, "of older versions; now in node-state.dat")
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
    """Before a client's or a service's payload, which is the rest of the message."""

    leadership_term_id: int = i64(0)
    cluster_session_id: int = i64(8)
    timestamp: int = i64(16)


class TimerEvent(Layout, size=24, title="Log: timer", source=f"{_CODECS}, TimerEvent, 20"):
    """A timer of a service is due."""

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
    """What all nodes are to do at this position."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8, "behind this message")
    timestamp: int = i64(16)
    action: int = i32(24, "0 suspend, 1 resume, 2 snapshot", names=CLUSTER_ACTIONS, null=NULL_INT)
    flags: int = i32(28, "since version 11; 0 all nodes, 1 standby nodes only", null=NULL_INT)


class NewLeadershipTermEvent(
    Layout, size=48, title="Log: new leadership term", source=f"{_CODECS}, NewLeadershipTermEvent, 24"
):
    """The first message of each term."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8, "behind this message")
    timestamp: int = i64(16)
    term_base_log_position: int = i64(24)
    leader_member_id: int = i32(32)
    log_session_id: int = i32(36)
    time_unit: int = i32(40, "since version 4; none: milliseconds", names=TIME_UNITS, null=NULL_INT)
    app_version: int = i32(44, "since version 4; of the services, major << 16 | minor << 8 | patch", null=0)


class MembershipChangeEvent(
    Layout,
    size=40,
    title="Log: membership change",
    source=f"{_CODECS}, MembershipChangeEvent, 25",
    var_data=("cluster_members",),
):
    """A member joined or quit: clusters with dynamic membership, which later versions do not have."""

    leadership_term_id: int = i64(0)
    log_position: int = i64(8)
    timestamp: int = i64(16)
    leader_member_id: int = i32(24)
    cluster_size: int = i32(28)
    change_type: int = i32(32, "0 join, 1 quit", names=CHANGE_TYPES, null=NULL_INT)
    member_id: int = i32(36)


class SnapshotMarker(Layout, size=40, title="Snapshot: marker", source=f"{_CODECS}, SnapshotMarker, 100"):
    """Begin and end of the cluster's part of a snapshot. What follows the end is the service's own."""

    type_id: int = i64(0, "1 consensus module, 2 service")
    log_position: int = i64(8)
    leadership_term_id: int = i64(16)
    index: int = i32(24)
    mark: int = i32(28, "0 begin, 1 section, 2 end", names=SNAPSHOT_MARKS, null=NULL_INT)
    time_unit: int = i32(32, "since version 4; none: milliseconds", names=TIME_UNITS, null=NULL_INT)
    app_version: int = i32(36, "since version 4", null=0)


class ClientSession(
    Layout,
    size=12,
    title="Snapshot: a service's session",
    source=f"{_CODECS}, ClientSession, 102",
    var_data=("response_channel", data("encoded_principal")),
):
    """A client's session, as a service knows it."""

    cluster_session_id: int = i64(0)
    response_stream_id: int = i32(8)


class ClusterSession(
    Layout,
    size=40,
    title="Snapshot: a consensus module's session",
    source=f"{_CODECS}, ClusterSession, 103",
    var_data=("response_channel",),
):
    """A client's session, as the consensus module knows it."""

    cluster_session_id: int = i64(0)
    correlation_id: int = i64(8)
    opened_log_position: int = i64(16)
    time_of_last_activity: int = i64(24, "-1: the leader keeps it")
    close_reason: int = i32(32, "none while it is open", names=CLOSE_REASONS, null=NULL_INT)
    response_stream_id: int = i32(36)


class ScheduledTimer(Layout, size=16, title="Snapshot: a timer", source=f"{_CODECS}, Timer, 104"):
    """A timer that is not yet due."""

    correlation_id: int = i64(0)
    deadline: int = i64(8)


class ConsensusModuleState(
    Layout, size=28, title="Snapshot: consensus module", source=f"{_CODECS}, ConsensusModule, 105"
):
    """The consensus module's own state. All but the first field came with version 3."""

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
    """The members; snapshots of older versions have it."""

    member_id: int = i32(0)
    high_member_id: int = i32(4)


class PendingMessageTracker(
    Layout, size=24, title="Snapshot: a service's pending messages", source=f"{_CODECS}, PendingMessageTracker, 107"
):
    """Which messages of a service have not reached the log yet. They follow, as session messages."""

    next_service_session_id: int = i64(0)
    log_service_session_id: int = i64(8)
    pending_message_capacity: int = i32(16, null=0)
    service_id: int = i32(20)
