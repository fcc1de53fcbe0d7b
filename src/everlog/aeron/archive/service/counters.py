"""The counters of an archive: type ids, keys and labels. Source: AeronCounters, ArchiveCounters, RecordingPos,
ControlSessionCounter."""

from __future__ import annotations

import struct

from everlog.version import __version__

RECORDING_POSITION_TYPE_ID = 100
ARCHIVE_ERRORS_TYPE_ID = 101
CONTROL_SESSIONS_TYPE_ID = 102
MAX_CYCLE_TIME_TYPE_ID = 103
CYCLE_THRESHOLD_TYPE_ID = 104
RECORDER_MAX_WRITE_TIME_TYPE_ID = 105
RECORDER_WRITTEN_BYTES_TYPE_ID = 106
RECORDER_WRITE_TIME_TYPE_ID = 107
REPLAYER_MAX_READ_TIME_TYPE_ID = 108
REPLAYER_READ_BYTES_TYPE_ID = 109
REPLAYER_READ_TIME_TYPE_ID = 110
RECORDING_SESSIONS_TYPE_ID = 111
REPLAY_SESSIONS_TYPE_ID = 112
CONTROL_SESSION_TYPE_ID = 113

MAX_KEY_LENGTH = 112
MAX_LABEL_LENGTH = 380
_RECORDING_KEY = struct.Struct("<qii")
_ARCHIVE_ID = struct.Struct("<q")


def recording_position_key(recording_id: int, session_id: int, source_identity: str, archive_id: int) -> bytes:
    """The key of a recording's position; a source identity that is too long is cut."""
    room = MAX_KEY_LENGTH - _RECORDING_KEY.size - _ARCHIVE_ID.size
    source = source_identity.encode("ascii", "replace")[:room]
    return _RECORDING_KEY.pack(recording_id, session_id, len(source)) + source + _ARCHIVE_ID.pack(archive_id)


def recording_position_label(recording_id: int, session_id: int, stream_id: int, channel: str, archive_id: int) -> str:
    """The label of a recording's position; a channel that is too long is cut."""
    return _label(f"rec-pos: {recording_id} {session_id} {stream_id} {channel}", archive_id)


def control_session_key(archive_id: int, session_id: int) -> bytes:
    """The key of a control session's counter."""
    return struct.pack("<qq", archive_id, session_id)


def control_session_label(client: str, archive_id: int) -> str:
    """The label of a control session's counter."""
    return _label(f"control-session: {client}", archive_id)


def archive_key(archive_id: int) -> bytes:
    """The key of a counter that an archive has once."""
    return _ARCHIVE_ID.pack(archive_id)


def archive_errors_label(archive_id: int) -> str:
    """The label of the counter of errors, which also shows that the archive is alive."""
    return f"Archive Errors - archiveId={archive_id} version={__version__}"


def archive_label(text: str, archive_id: int) -> str:
    """The label of a counter that an archive has once."""
    return _label(text, archive_id)


def _label(text: str, archive_id: int) -> str:
    suffix = f" - archiveId={archive_id}"
    return text.encode("ascii", "replace")[: MAX_LABEL_LENGTH - len(suffix)].decode() + suffix
