"""Every struct of a media driver's folder, declared once. All are little-endian."""

from __future__ import annotations

from everlog.layout import Layout, fixed_bytes, gap, i32, i64, u8, u16


class CncMetaData(Layout, size=128, title="cnc.dat: metadata", source="CncFileDescriptor"):
    """At the start of ``cnc.dat``. Followed by, in this order: to-driver buffer, to-clients buffer, counters' metadata,
    counters' values, error log."""

    cnc_version: int = i32(0, "major << 16 | minor << 8 | patch; written last: 0 while a driver is starting")
    to_driver_buffer_length: int = i32(4, "with its trailer of 768 bytes")
    to_clients_buffer_length: int = i32(8, "with its trailer of 128 bytes")
    counters_metadata_buffer_length: int = i32(12, "512 bytes for each counter")
    counters_values_buffer_length: int = i32(16, "128 bytes for each counter")
    error_log_buffer_length: int = i32(20)
    client_liveness_timeout_ns: int = i64(24, "a client or driver without a heartbeat for longer is dead")
    start_timestamp_ms: int = i64(32, "milliseconds since 1970")
    pid: int = i64(40)
    file_page_size: int = i32(48, "the file's length is a multiple of it; 0 in files of older versions")
    _reserved = gap(52, 76)


class RingBufferTrailer(Layout, size=768, title="cnc.dat: to-driver trailer", source="Agrona, RingBufferDescriptor"):
    """At the end of the to-driver buffer, after the clients' commands, whose length is a power of two."""

    _padding = gap(0, 128)
    tail_position: int = i64(128)
    _padding_2 = gap(136, 120)
    head_cache_position: int = i64(256)
    _padding_3 = gap(264, 120)
    head_position: int = i64(384)
    _padding_4 = gap(392, 120)
    correlation_counter: int = i64(512, "the next registration id")
    _padding_5 = gap(520, 120)
    consumer_heartbeat: int = i64(640, "milliseconds since 1970, updated about once a second while the driver runs")
    _padding_6 = gap(648, 120)


class BroadcastTrailer(
    Layout, size=128, title="cnc.dat: to-clients trailer", source="Agrona, BroadcastBufferDescriptor"
):
    """At the end of the to-clients buffer, after the driver's events, whose length is a power of two."""

    tail_intent_counter: int = i64(0)
    tail_counter: int = i64(8)
    latest_counter: int = i64(16)
    _padding = gap(24, 104)


class RecordHeader(
    Layout, size=8, title="cnc.dat: record header", source="Agrona, RecordDescriptor of ring buffer and broadcast"
):
    """Precedes each command in the to-driver buffer and each event in the to-clients buffer. Records begin at multiples
    of 8 bytes."""

    length: int = i32(0, "including this header; to-driver: 0 or negative while a client writes it")
    type_id: int = i32(4, "of a command or event; -1: padding up to the buffer's end")


class ReceiverAddress(
    Layout, size=20, title="Publication error: the receiver's address", source="PublicationErrorFrameFlyweight"
):
    """Part of the event that a receiver reported an error to a publication."""

    address_type: int = u16(0, "1 IPv4, 2 IPv6")
    port: int = u16(2)
    address: bytes = fixed_bytes(4, 16, "in network order; IPv4 uses the first 4 bytes")


class CounterMetaData(Layout, size=512, title="cnc.dat: a counter's metadata", source="Agrona, CountersReader"):
    """Describes a counter. Counter ``n`` has the ``n``-th record; readers stop at the first that was never used."""

    state: int = i32(0, "0 never used, 1 allocated, -1 reclaimed")
    type_id: int = i32(4, "below 1000: a type of Aeron")
    free_for_reuse_deadline: int = i64(8, "milliseconds since 1970; the largest number while allocated")
    key: bytes = fixed_bytes(16, 112, "depends on the type")
    label_length: int = i32(128)
    label: bytes = fixed_bytes(132, 380, "ASCII")


class CounterValue(Layout, size=128, title="cnc.dat: a counter's value", source="Agrona, CountersReader"):
    """A counter's value and ids. Counter ``n`` has the ``n``-th record."""

    value: int = i64(0)
    registration_id: int = i64(8)
    owner_id: int = i64(16, "the client that owns it")
    reference_id: int = i64(24, "for example the image of a subscriber's position")
    _padding = gap(32, 96)


class SystemKey(Layout, size=4, title="Counter key: the driver's own", source="SystemCounterDescriptor"):
    """Key of the driver's own counters."""

    system_counter_id: int = i32(0)


class NeighborKey(Layout, size=4, title="Counter key: a neighbour", source="DriverNameResolver"):
    """Key of the bootstrap neighbours of a driver's name resolver."""

    index: int = i32(0)


class StreamKey(Layout, size=20, title="Counter key: a stream", source="StreamCounter"):
    """Key of positions, limits and counts of a publication, an image or a subscription. The channel (ASCII) follows."""

    registration_id: int = i64(0)
    session_id: int = i32(8)
    stream_id: int = i32(12)
    channel_length: int = i32(16, "longer channels are truncated")


class ChannelKey(Layout, size=4, title="Counter key: a channel", source="ChannelEndpointStatus"):
    """Key of channel endpoints and their destinations. The channel (ASCII) follows."""

    channel_length: int = i32(0, "longer channels are truncated")


class HeartbeatKey(Layout, size=8, title="Counter key: a client", source="HeartbeatTimestamp"):
    """Key of a client's heartbeat."""

    client_id: int = i64(0)


class LocalSocketKey(Layout, size=8, title="Counter key: a local address", source="LocalSocketAddressStatus"):
    """Key of a bound socket. Its address (ASCII) follows."""

    channel_status_id: int = i32(0, "counter of the channel endpoint")
    local_address_length: int = i32(4, "0 until it is bound")


class RecordingKey(Layout, size=16, title="Counter key: a recording", source="RecordingPos"):
    """Key of a recording's position. The source (ASCII) follows, then the archive's id, a 64-bit number."""

    recording_id: int = i64(0)
    session_id: int = i32(8)
    source_identity_length: int = i32(12)


class ArchiveKey(Layout, size=8, title="Counter key: an archive", source="ArchiveCounters"):
    """Key of an archive's counters."""

    archive_id: int = i64(0)


class ClusterKey(Layout, size=4, title="Counter key: a cluster", source="ClusterCounters"):
    """Key of a cluster member's counters."""

    cluster_id: int = i32(0)


class ServiceKey(Layout, size=8, title="Counter key: a clustered service", source="ClusterCounters"):
    """Key of a clustered service's counters."""

    cluster_id: int = i32(0)
    service_id: int = i32(4)


class LossEntry(Layout, size=40, title="loss-report.dat: an entry", source="LossReport"):
    """Loss observed on an image. Channel and source (ASCII) follow, each after its length (i32). The second length is
    at a multiple of 4 bytes from this entry's start, the next entry at a multiple of 64."""

    observation_count: int = i64(0, "written last; 0: no further entry")
    total_bytes_lost: int = i64(8)
    first_observation: int = i64(16, "milliseconds since 1970")
    last_observation: int = i64(24, "milliseconds since 1970")
    session_id: int = i32(32)
    stream_id: int = i32(36)


class LogMetaData(Layout, size=4096, title="Log buffer: metadata", source="LogBufferDescriptor"):
    """At the end of a ``.logbuffer`` file, after its three terms and, with large pages, padding. Older drivers write
    less of it: the windows, buffer lengths and everything after the default header are then 0."""

    tail_0: int = i64(0, "term id << 32 | bytes claimed, which may exceed the term's length; 0 in images")
    tail_1: int = i64(8)
    tail_2: int = i64(16)
    active_term_count: int = i32(24, "terms since the first; 0 in images")
    _padding = gap(28, 100)
    end_of_stream_position: int = i64(128, "the largest number until known")
    is_connected: int = i32(136)
    active_transport_count: int = i32(140)
    _padding_2 = gap(144, 112)
    correlation_id: int = i64(256, "registration id of a publication, correlation id of an image: the file's name")
    initial_term_id: int = i32(264)
    default_frame_header_length: int = i32(268, "32")
    mtu_length: int = i32(272, "maximum length of a data frame")
    term_length: int = i32(276)
    page_size: int = i32(280)
    publication_window_length: int = i32(284)
    receiver_window_length: int = i32(288)
    socket_sndbuf_length: int = i32(292)
    os_default_socket_sndbuf_length: int = i32(296)
    os_max_socket_sndbuf_length: int = i32(300)
    socket_rcvbuf_length: int = i32(304)
    os_default_socket_rcvbuf_length: int = i32(308)
    os_max_socket_rcvbuf_length: int = i32(312)
    max_resend: int = i32(316)
    default_header: bytes = fixed_bytes(320, 128, "its first 32 bytes are a data frame header that publishers copy")
    entity_tag: int = i64(448)
    response_correlation_id: int = i64(456)
    linger_timeout_ns: int = i64(464)
    untethered_window_limit_timeout_ns: int = i64(472)
    untethered_resting_timeout_ns: int = i64(480)
    group: int = u8(488)
    is_response: int = u8(489)
    rejoin: int = u8(490)
    reliable: int = u8(491)
    sparse: int = u8(492)
    signal_eos: int = u8(493)
    spies_simulate_connection: int = u8(494)
    tether: int = u8(495)
    is_publication_revoked: int = u8(496)
    log_type: int = u8(497, "0 concurrent publication, 1 exclusive publication, 2 image")
    _padding_3 = gap(498, 2)
    untethered_linger_timeout_ns: int = i64(500)
    _padding_4 = gap(508, 3588)
