"""Finds the members of a cluster that a node's log and snapshots name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.scanning import LOG, raw_messages
from everlog.aeron.cluster.folder.snapshot import snapshot_stream
from everlog.aeron.cluster.folder.state import leader_of
from everlog.aeron.cluster.protocol.codec import decode_known
from everlog.aeron.cluster.protocol.snapshot import ClusterMembers, SnapshotMarker
from everlog.aeron.cluster.protocol.values import SnapshotMark

MAX_ID_DIGITS = 10
"""Member IDs have 32 bits."""
MAX_TERMS = 100
"""The leaders of this many latest terms are looked up."""


@dataclass(slots=True)
class Members:
    """The known members. ``endpoints`` maps member IDs to endpoints in the cluster's notation, empty if unknown;
    ``is_complete`` is set if a list of all members was found."""

    member_id: int
    leader_member_id: int | None = None
    endpoints: dict[int, str] = field(default_factory=dict)
    is_complete: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        known = [{"member_id": key, "endpoints": text or None} for key, text in sorted(self.endpoints.items())]
        return {
            "member_id": self.member_id,
            "leader_member_id": self.leader_member_id,
            "members": known,
            "is_complete": self.is_complete,
        }


def read_members(node: NodeFolder, member_id: int) -> Members:
    """Collect the leader of each term from its first message in the log, and the member list that snapshots of older
    versions contain."""
    members = Members(member_id, endpoints={member_id: ""})
    context = None if node.log_recording_id is None else node.context(LOG)
    if context is not None:
        for entry in node.recording_log.terms[-MAX_TERMS:]:
            leader = leader_of(node, entry, context)
            members.leader_member_id = leader
            if leader is not None:
                members.endpoints.setdefault(leader, "")
    index = node.recording_log.latest_snapshot()
    if index is not None:
        _read_snapshot(node, members, snapshot_stream(node.recording_log.entries[index].recording_id))
    return members


def _read_snapshot(node: NodeFolder, members: Members, stream: str) -> None:
    context = node.context(stream)
    if context is None or node.place is None:
        return
    for raw in raw_messages(node.place.storage, context.archive, on_fault=lambda fault: None):
        message = decode_known(raw.data)
        if message is None or (isinstance(message, SnapshotMarker) and message.mark is SnapshotMark.END):
            return
        if isinstance(message, ClusterMembers):
            members.endpoints |= parse_members(message.cluster_members)
            members.is_complete = True
            return


def parse_members(text: str) -> dict[int, str]:
    """Parse ``0,ingress:port,consensus:port,log:port,catchup:port,archive:port|1,...`` into endpoints by member ID.
    Parts that do not begin with a member ID are skipped."""
    found = {}
    for part in text.split("|"):
        number, comma, endpoints = part.partition(",")
        if comma and number.isascii() and number.isdecimal() and len(number) <= MAX_ID_DIGITS:
            found[int(number)] = endpoints
    return found
