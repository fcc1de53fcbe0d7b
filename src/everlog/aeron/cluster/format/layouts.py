"""The structs of a cluster node's files. All are little-endian. The messages of the log and of snapshots are in
:mod:`everlog.aeron.cluster.protocol`."""

from __future__ import annotations

from everlog.layout import Layout, gap, i32, i64, u16

COMPONENTS = {0: "UNKNOWN", 1: "CONSENSUS_MODULE", 2: "CONTAINER", 3: "BACKUP", 4: "STANDBY"}


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
