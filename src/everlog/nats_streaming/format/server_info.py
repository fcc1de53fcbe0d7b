"""``server.dat``: one record with the cluster's name and subjects.

Source: ``stores/filestore.go`` (recoverServerInfo)."""

from __future__ import annotations

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.core.store import FaultSink
from everlog.errors import LimitExceeded
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.layouts import RecordHeader
from everlog.nats_streaming.format.messages import ServerInfo
from everlog.nats_streaming.format.names import SERVER_FILE
from everlog.nats_streaming.format.protobuf import BadMessage
from everlog.nats_streaming.format.records import FIRST_RECORD, HEADER, crc_text, version_fault

_REPAIR = "remove the file and start a server with the same cluster ID"
_LOSES = "the server's information: cluster ID and subjects"


def read_server_info(storage: Storage, crc: Crc32, check: bool, on_fault: FaultSink) -> ServerInfo | None:
    """Read the record; ``None`` if it is missing or damaged. Reports faults to ``on_fault``."""

    def fault(code: str, offset: int | None, found: str, expected: str, loses: str = _LOSES) -> None:
        on_fault(Fault(code, SERVER_FILE, offset, found, expected, loses, _REPAIR))

    if not storage.exists(SERVER_FILE):
        fault("server-missing", None, "no file", "server.dat")
        return None
    try:
        data = storage.read_all(SERVER_FILE)
    except LimitExceeded as error:
        fault("server-size", None, str(error.found), "one record")
        return None
    if (bad := version_fault(SERVER_FILE, data[:FIRST_RECORD], loses=_LOSES)) is not None:
        on_fault(bad)
        if len(data) < FIRST_RECORD:
            return None
    at, left = FIRST_RECORD, len(data) - FIRST_RECORD - HEADER
    if left == -HEADER:
        fault("server-missing", at, "no record", "one record")
        return None
    if left < 0:
        fault("torn-record", at, f"{left + HEADER} bytes", f"a record header of {HEADER} bytes")
        return None
    length, expected = RecordHeader.unpack_from(data, at).values
    begin = at + HEADER
    if length == 0 and expected == 0:
        fault("zero-padding", at, "zeros", "one record")
        return None
    if length > left:
        fault("torn-record", at, f"{left} bytes", f"a payload of {length} bytes")
        return None
    if check and (actual := crc.checksum(data, begin, begin + length)) != expected:
        fault("bad-crc", at, *crc_text(actual, expected))
        return None
    if length < left:
        fault("server-size", begin + length, f"{left - length} more bytes", "the end of the file", "nothing")
    try:
        return ServerInfo.parse(data, begin, begin + length)
    except BadMessage as error:
        fault("bad-message", at, str(error), "a ServerInfo message")
        return None
