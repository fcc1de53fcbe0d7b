"""``everlog driver DIR terminate``: asks the driver to terminate."""

from __future__ import annotations

from pathlib import Path

import click

from everlog.aeron.transport.format.cnc_file import CNC_NAME
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import TerminateDriver, encode
from everlog.cli.driver.sampling import now_ms, open_cnc
from everlog.errors import StoreUnavailable, WriteFailed

NO_ANSWER = -1
"""Correlation id of a command without a response."""


@click.command
@click.pass_obj
def terminate(folder: str) -> None:
    """Ask the driver to terminate. It does so if its configuration (aeron.driver.termination.validator) allows it. This
    is the only verb that writes; it changes nothing in the folder of a driver that is not running."""
    with open_cnc(folder) as found:
        if not found.is_live(now_ms()):
            text = f"no media driver runs in {folder}"
            where = f"{folder}/{CNC_NAME}"
            raise StoreUnavailable(where, found="no running driver", hint="nothing was changed", message=text)
    cnc = CncMemory.map(Path(folder))
    commands = ManyToOneRingBuffer(cnc.to_driver)
    type_id, data = encode(TerminateDriver(commands.next_correlation_id(), NO_ANSWER, b""))
    if not commands.write(type_id, data):
        text, hint = f"the command buffer of the driver in {folder} is full", "everlog driver DIR shows its heartbeat"
        raise WriteFailed(folder, found="a full command buffer", hint=hint, message=text)
