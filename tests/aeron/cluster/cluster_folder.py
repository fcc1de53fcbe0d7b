"""A cluster node's folder made by hand: a log of a few terms, snapshots, mark files, in an archive beside it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from everlog.aeron.cluster.format.layouts import CandidateTerm, ClusterMarkHeader, NodeStateFrame, NodeStateHeader
from everlog.aeron.cluster.format.messages import TYPES
from everlog.aeron.cluster.format.recording_log import SNAPSHOT, encode_entry
from everlog.aeron.cluster.protocol.codec import SCHEMA_ID, SCHEMA_VERSION
from everlog.aeron.layouts import CatalogHeader, DataHeader, DescriptorHeader, RecordingDescriptor, SbeMessageHeader

TERM_LENGTH = 65_536
MTU = 1408
T0 = 1_700_000_000_000
MEMBER = {"member_id": 3, "cluster_id": 7}


def raw_message(kind: str, texts: tuple[bytes, ...] = (), payload: bytes = b"", **fields: int) -> bytes:
    """A message of any numbers, also of those that have no value; fields that are not named are 0. ``texts`` is its
    variable-length data, ``payload`` follows a session message's header."""
    item = next(each for each in TYPES if each.kind == kind)
    places = {field.name: field for _, field in item.block.fields()}
    block = bytearray(item.block.size)
    for name, number in fields.items():
        struct.pack_into("<" + places[name].code, block, places[name].offset, number)
    head = SbeMessageHeader.pack(
        block_length=len(block), template_id=item.template_id, schema_id=SCHEMA_ID, version=SCHEMA_VERSION
    )
    return head + block + b"".join(len(text).to_bytes(4, "little") + text for text in texts) + payload


@dataclass
class Recording:
    """Frames of whole messages in one segment."""

    recording_id: int
    stream_id: int = 100
    data: bytearray = field(default_factory=bytearray)
    stop: bool = True
    state: int = 1

    def add(self, message: bytes) -> int:
        """Append a message; its position."""
        at = len(self.data)
        header = DataHeader.pack(
            frame_length=DataHeader.size + len(message),
            flags=0xC0,
            type=1,
            term_offset=at % TERM_LENGTH,
            session_id=5,
            stream_id=self.stream_id,
            term_id=at // TERM_LENGTH,
        )
        body = header + message
        self.data += body.ljust((len(body) + 31) // 32 * 32, b"\0")
        return at

    @property
    def end(self) -> int:
        return len(self.data)


def catalog_of(recordings: list[Recording]) -> bytes:
    out = bytearray(
        CatalogHeader.pack(version=3 << 16 | 1 << 8, length=32, next_recording_id=len(recordings), alignment=64)
    )
    for recording in recordings:
        body = RecordingDescriptor.pack(
            recording_id=recording.recording_id,
            stop_timestamp=T0,
            stop_position=recording.end if recording.stop else -1,
            segment_file_length=TERM_LENGTH,
            term_buffer_length=TERM_LENGTH,
            mtu_length=MTU,
            session_id=5,
            stream_id=recording.stream_id,
        )
        body += b"\0" * 12
        entry = DescriptorHeader.pack(length=len(body), state=recording.state) + body
        out += entry.ljust((len(entry) + 63) // 64 * 64, b"\0")
    return bytes(out).ljust(8192, b"\0")


def mark_of(component: int, service_id: int, activity: int = -1, version: int = 768) -> bytes:
    head = SbeMessageHeader.pack(block_length=128, template_id=200, schema_id=110, version=2)
    block = ClusterMarkHeader.pack(
        version=version,
        component_type=component,
        activity_timestamp=activity,
        start_timestamp=T0,
        pid=42,
        header_length=512,
        error_buffer_length=512,
        service_id=service_id,
        **MEMBER,
    )
    return (head + block + b"\0" * 24).ljust(1024, b"\0")


def node_state_of(term: int, position: int) -> bytes:
    candidate = CandidateTerm.pack(candidate_term_id=term, timestamp=T0, log_position=position)
    frame = NodeStateFrame.pack(block_length=24, template_id=301, schema_id=112, version=10, frame_length=40)
    footer = NodeStateFrame.pack(template_id=304, schema_id=112, version=10, frame_length=16)
    return (NodeStateHeader.pack(version=768) + frame + candidate + footer).ljust(256, b"\0")


def new_term(term: int, position: int, base: int, leader: int = 3) -> bytes:
    """Its message is 56 bytes long: the frame 96."""
    return raw_message(
        "new-leadership-term",
        leadership_term_id=term,
        log_position=position + 96,
        timestamp=T0 + term,
        term_base_log_position=base,
        leader_member_id=leader,
    )


def session_message(term: int, payload: bytes, time: int = T0) -> bytes:
    return raw_message(
        "session-message", leadership_term_id=term, cluster_session_id=9, timestamp=time + term, payload=payload
    )


def snapshot_of(recording_id: int, type_id: int, position: int, term: int, state: bytes = b"") -> Recording:
    """A marker, a timer, a marker, and what a service wrote."""
    recording = Recording(recording_id, stream_id=106)
    marks = [
        raw_message("snapshot-marker", type_id=type_id, log_position=position, leadership_term_id=term, mark=mark)
        for mark in (0, 2)
    ]
    recording.add(marks[0])
    recording.add(raw_message("scheduled-timer", correlation_id=1, deadline=T0))
    recording.add(marks[1])
    if state:
        recording.add(state)
    return recording


@dataclass
class Node:
    """Term 0 of 10 messages, a snapshot (recordings 1 and 2), term 1 of 5 messages; all of it is right. Change what
    should be wrong, then ``write``."""

    log: Recording = field(default_factory=lambda: Recording(0))
    snapshots: list[Recording] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    base: int = 0
    snapshot_position: int = 0

    @classmethod
    def make(cls, payload: bytes = b"payload ") -> Node:
        node = cls()
        node.log.add(new_term(0, 0, 0))
        for number in range(10):
            node.log.add(session_message(0, payload * number))
        node.base = node.snapshot_position = node.log.end
        node.log.add(new_term(1, node.base, node.base))
        for number in range(5):
            node.log.add(session_message(1, payload * number))
        at = node.snapshot_position
        node.snapshots = [snapshot_of(1, 2, at, 0, b"state"), snapshot_of(2, 1, at, 0)]
        common = {"leadership_term_id": 0, "term_base_log_position": 0, "log_position": at, "timestamp": T0}
        node.entries = [
            encode_entry(recording_id=0, **common),
            encode_entry(recording_id=1, service_id=0, type=SNAPSHOT, **common),
            encode_entry(recording_id=2, service_id=-1, type=SNAPSHOT, **common),
            encode_entry(
                recording_id=0, leadership_term_id=1, term_base_log_position=node.base, log_position=-1, timestamp=T0
            ),
        ]
        node.files = {
            "cluster-mark.dat": mark_of(1, -1),
            "cluster-mark-service-0.dat": mark_of(2, 0),
            "node-state.dat": node_state_of(1, node.base),
        }
        return node

    def write(self, folder: Path) -> Path:
        """The node's cluster folder."""
        cluster, archive = folder / "cluster", folder / "archive"
        cluster.mkdir(parents=True)
        archive.mkdir()
        if self.entries:
            (cluster / "recording.log").write_bytes(b"".join(self.entries))
        for name, data in self.files.items():
            (cluster / name).write_bytes(data)
        recordings = [self.log, *self.snapshots]
        (archive / "archive.catalog").write_bytes(catalog_of(recordings))
        for recording in recordings:
            data = bytes(recording.data).ljust(TERM_LENGTH, b"\0")
            (archive / f"{recording.recording_id}-0.rec").write_bytes(data)
        return cluster
