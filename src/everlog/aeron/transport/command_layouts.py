"""Every struct of the control protocol between clients and a media driver: commands in the to-driver buffer, events in
the to-clients buffer. All are little-endian."""

from __future__ import annotations

from everlog.layout import Layout, i32


class RecordHeader(
    Layout, size=8, title="cnc.dat: record header", source="Agrona, RecordDescriptor of ring buffer and broadcast"
):
    """Before each command in the to-driver buffer and each event in the to-clients buffer. Records begin at multiples
    of 8 bytes."""

    length: int = i32(0, "with this header; to-driver: 0 or negative while a client writes it")
    type_id: int = i32(4, "of a command or event; -1: padding up to the buffer's end")
