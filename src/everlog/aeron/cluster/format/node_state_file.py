"""``node-state.dat``: the highest leadership term that a node stood or voted for. Source: NodeStateFile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everlog.aeron.cluster.format.layouts import CandidateTerm, NodeStateFrame, NodeStateHeader
from everlog.aeron.frames.constants import align, version_text
from everlog.errors import CorruptData, UnsupportedVersion

NODE_STATE_NAME = "node-state.dat"
SCHEMA_ID = 112
CANDIDATE_TERM, FOOTER = 301, 304
MAJOR_VERSION = 0
ALIGNMENT = 8
MAX_FRAMES = 64
"""A valid file has two or three."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The file's content. All numbers are -1 until the node stands or votes for the first time."""

    version: str
    schema_version: int
    candidate_term_id: int
    timestamp: int
    log_position: int
    offset: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "version": self.version,
            "schema_version": self.schema_version,
            "candidate_term_id": self.candidate_term_id,
            "timestamp": self.timestamp,
            "log_position": self.log_position,
        }


def read_node_state(data: bytes, name: str = NODE_STATE_NAME) -> NodeState:
    """Decode a file. Raises :class:`CorruptData` if it is invalid and :class:`UnsupportedVersion` if its major version
    is not 0."""
    if len(data) < NodeStateHeader.size:
        expected = f"a header of {NodeStateHeader.size} bytes"
        raise CorruptData(name, offset=0, found=f"{len(data)} bytes", expected=expected)
    version = NodeStateHeader.unpack_from(data).version
    if not 0 < version < 1 << 24:
        raise CorruptData(name, offset=0, found=f"version {version}", expected="a valid version")
    if version >> 16 != MAJOR_VERSION:
        raise UnsupportedVersion(name, offset=0, found=f"version {version_text(version)}", expected="version 0.x")
    at, found = NodeStateHeader.size, None
    for _ in range(MAX_FRAMES):
        frame = _frame(data, at, name)
        if frame.template_id == FOOTER:
            break
        if frame.template_id == CANDIDATE_TERM and found is None:
            body = at + NodeStateFrame.size
            if frame.block_length < CandidateTerm.size or frame.frame_length < NodeStateFrame.size + CandidateTerm.size:
                expected = f"a block of {CandidateTerm.size} bytes"
                raise CorruptData(name, offset=at, found=f"{frame.block_length} bytes", expected=expected)
            found = _state(data, body, version, frame.version)
        at += align(frame.frame_length, ALIGNMENT)
    else:
        raise CorruptData(name, offset=at, found=f"over {MAX_FRAMES} messages", expected="a footer")
    if found is None:
        raise CorruptData(name, offset=at, found="the footer", expected="a candidate term before it")
    return found


def _state(data: bytes, at: int, version: int, schema_version: int) -> NodeState:
    term = CandidateTerm.unpack_from(data, at)
    values = term.candidate_term_id, term.timestamp, term.log_position
    return NodeState(version_text(version), schema_version, *values, at)


def _frame(data: bytes, at: int, name: str) -> NodeStateFrame:
    room = len(data) - at
    if room < NodeStateFrame.size:
        raise CorruptData(name, offset=at, found=f"{room} bytes", expected="a message or the footer")
    frame = NodeStateFrame.unpack_from(data, at)
    if frame.schema_id != SCHEMA_ID:
        raise CorruptData(name, offset=at, found=f"schema ID {frame.schema_id}", expected=f"schema ID {SCHEMA_ID}")
    if not NodeStateFrame.size <= frame.frame_length <= room:
        expected = f"a length from {NodeStateFrame.size} to {room}"
        raise CorruptData(name, offset=at, found=f"frame length {frame.frame_length}", expected=expected)
    return frame
