"""Messages of Aeron's protocols as values: a message is a frozen dataclass, and its annotations are its layout.

::

    @dataclass(frozen=True, slots=True)
    class Snapshot(Message):
        recording_id: Int64
        service_id: Int32

    @dataclass(frozen=True, slots=True)
    class BackupResponse(Message):
        '''The answer to a backup query.'''

        template_id: ClassVar[int] = 78
        correlation_id: Annotated[Int64, "of the query"]
        member_id: Annotated[Int32, Since(10)] = -1
        snapshots: tuple[Snapshot, ...] = ()
        cluster_members: Text = ""

Numbers take the places of the block in the order of their declaration, without gaps; groups follow it, then texts and
bytes, each after its length. A string is a field's meaning. A field that a later schema version added says so with
:class:`Since` and has a default, which a message of an earlier version gets. :func:`block_of` describes a message for
columns and documents.

:class:`MessageCodec` encodes and decodes the messages of an SBE schema, :class:`BodyCodec` those that have no SBE
header, such as a driver's commands.

Source: FIX Simple Binary Encoding 1.0, as Aeron's codecs use it: little-endian, header of four 16-bit numbers.
"""

from everlog.aeron.messages.bodies import MAX_DATA_BYTES, MAX_GROUP_ENTRIES, BodyCodec
from everlog.aeron.messages.codec import HEADER_LENGTH, MessageCodec
from everlog.aeron.messages.declarations import (
    NULL_INT32,
    NULL_INT64,
    Bytes,
    Composite,
    Data,
    Flag,
    Int32,
    Int64,
    Message,
    Number,
    Since,
    Text,
    UInt8,
)
from everlog.aeron.messages.plans import block_of

__all__ = [
    "HEADER_LENGTH",
    "MAX_DATA_BYTES",
    "MAX_GROUP_ENTRIES",
    "NULL_INT32",
    "NULL_INT64",
    "BodyCodec",
    "Bytes",
    "Composite",
    "Data",
    "Flag",
    "Int32",
    "Int64",
    "Message",
    "MessageCodec",
    "Number",
    "Since",
    "Text",
    "UInt8",
    "block_of",
]
