"""A minimal receiver: it sends NAKs and status messages, and keeps the data.

It shares no code with the driver's: data is put where its header says, and is read once everything before it has
arrived.
"""

from __future__ import annotations

import struct

from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.testing.network.simulated import SimulatedMachine, SimulatedSocket

NAK_INTERVAL_NS = 2_000_000
STATUS_INTERVAL_NS = 20_000_000
_HEADER = struct.Struct("<iBBHiiiiq")


class ScriptedReceiver:
    """Receives one stream at ``port`` of a machine. ``reads`` says whether it consumes data, so that its window
    moves."""

    def __init__(
        self,
        machine: SimulatedMachine,
        sock: SimulatedSocket,
        *,
        window: int = 32768,
        receiver_id: int = 5,
        group_tag: int | None = None,
    ) -> None:
        self.machine, self.socket = machine, sock
        self.window, self.receiver_id, self.group_tag = window, receiver_id, group_tag
        self.setup: wire.Setup | None = None
        self.source: SocketAddress | None = None
        self.frames: dict[int, tuple[int, bytes]] = {}
        """Position to a frame's aligned length and its payload."""
        self.position = self.start = 0
        self.highest = 0
        self.messages: list[bytes] = []
        self.reads = True
        self.consumed = 0
        self.heartbeats: list[int] = []
        self.duplicates = 0
        self._batch = Datagrams(64, 65536)
        self._last_status_ns = self._last_nak_ns = -(1 << 62)

    def cycle(self, now_ns: int) -> None:
        """Take incoming data; send NAKs and status messages."""
        for index in range(self.socket.receive(self._batch)):
            self._on_datagram(self._batch.read(index), self._batch.source(index))
        self._read()
        if self.setup is None or self.source is None:
            return
        moved = self.position - self.consumed >= self.window // 4 and self.reads
        if self.reads:
            self.consumed = self.position if moved or self._is_status_due(now_ns) else self.consumed
        if moved or self._is_status_due(now_ns):
            self.send_status()
            self._last_status_ns = now_ns
        if self.highest > self.position and now_ns - self._last_nak_ns > NAK_INTERVAL_NS:
            self._last_nak_ns = now_ns
            self._send_nak()

    def send_status(self, flags: int = 0) -> None:
        """Send a status message."""
        term_id, term_offset = self._place(self.consumed)
        assert self.setup is not None
        stream = self.setup.session_id, self.setup.stream_id
        frame = wire.StatusMessage(*stream, term_id, term_offset, self.window, self.receiver_id, self.group_tag, flags)
        self.socket.send(wire.encode(frame), self.source)

    def _is_status_due(self, now_ns: int) -> bool:
        return now_ns - self._last_status_ns > STATUS_INTERVAL_NS

    def _send_nak(self) -> None:
        assert self.setup is not None
        term_id, term_offset = self._place(self.position)
        there = min(position for position in [*self.frames, self.highest] if position >= self.position)
        length = min(there - self.position, self.setup.term_length - term_offset)
        nak = wire.Nak(self.setup.session_id, self.setup.stream_id, term_id, term_offset, length)
        self.socket.send(wire.encode(nak), self.source)

    def _place(self, position: int) -> tuple[int, int]:
        assert self.setup is not None
        count, offset = divmod(position, self.setup.term_length)
        return _int32(self.setup.initial_term_id + count), offset

    def _on_datagram(self, data: bytes, source: SocketAddress) -> None:
        kind = wire.frame_type(data)
        if kind == wire.TYPE_SETUP:
            setup = wire.decode(data)
            assert isinstance(setup, wire.Setup)
            if self.setup is None:
                self.setup, self.source = setup, source
                self.start = self._position_of(setup.active_term_id, setup.term_offset)
                self.position = self.consumed = self.highest = self.start
        elif kind in (wire.TYPE_DATA, wire.TYPE_PADDING) and self.setup is not None:
            self._on_data(data)

    def _on_data(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            length, _, flags, kind, offset, _, _, term_id, _ = _HEADER.unpack_from(data, at)
            position = self._position_of(term_id, offset)
            if length == 0:
                self.heartbeats.append(flags)
                self.highest = max(self.highest, position)
                return
            aligned = (length + 31) & ~31
            if position < self.position or position in self.frames:
                self.duplicates += 1
            elif position < self.consumed + self.window * 2:
                self.frames[position] = aligned, b"" if kind == 0 else data[at + 32 : at + length]
            self.highest = max(self.highest, position + aligned)
            at += 32 if kind == 0 else aligned

    def _read(self) -> None:
        while (found := self.frames.pop(self.position, None)) is not None:
            self.position += found[0]
            if found[1]:
                self.messages.append(found[1])

    def _position_of(self, term_id: int, offset: int) -> int:
        assert self.setup is not None
        return _int32(term_id - self.setup.initial_term_id) * self.setup.term_length + offset


def _int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
