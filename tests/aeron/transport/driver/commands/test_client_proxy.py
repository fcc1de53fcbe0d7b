"""The driver's events on a broadcast buffer that is almost too small for them."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.driver.commands.command_errors import CommandRefused
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.memory.broadcast import TRAILER_LENGTH, BroadcastReceiver, BroadcastTransmitter
from everlog.aeron.transport.protocol import commands
from everlog.kernel.memory import Memory


@pytest.mark.parametrize("length", [0, 111, 112, 113, 128, 5000])
def test_an_errors_text_is_cut_to_what_a_record_holds(length: int) -> None:
    memory = Memory.allocate(1024 + TRAILER_LENGTH)
    transmitter = BroadcastTransmitter(memory)
    receiver = BroadcastReceiver(memory)
    assert transmitter.max_message_length == 128
    text = "é" * length  # a question mark each, one byte
    ClientProxy(transmitter).on_error(7, CommandRefused(ErrorCode.GENERIC_ERROR, text, None))
    record = receiver.receive()
    assert record is not None
    assert commands.decode_event(*record) == commands.OnError(7, ErrorCode.GENERIC_ERROR, "?" * min(length, 112))
