"""Recordings as clients get them: a catalog entry is the message, but for the ids of the request."""

from __future__ import annotations

import struct

from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.protocol.codec import SCHEMA_ID, SCHEMA_VERSION
from everlog.aeron.archive.protocol.responses import RecordingDescriptorMessage
from everlog.aeron.layouts import RecordingDescriptor, SbeMessageHeader

_IDS = struct.Struct("<qq")
_REST_AT = RecordingDescriptor.field("recording_id").offset
_HEADER = SbeMessageHeader.pack(
    block_length=RecordingDescriptor.size,
    template_id=RecordingDescriptorMessage.template_id,
    schema_id=SCHEMA_ID,
    version=SCHEMA_VERSION,
)


def descriptor_message(entry: CatalogEntry, control_session_id: int, correlation_id: int) -> bytes:
    """Return the descriptor's message: the ids of the request, followed by the rest of the catalog entry's bytes."""
    return _HEADER + _IDS.pack(control_session_id, correlation_id) + entry.body[_REST_AT:]
