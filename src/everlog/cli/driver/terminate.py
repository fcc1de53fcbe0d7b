"""``everlog driver DIR terminate``: asks the driver to end."""

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
"""Correlation id of a command that the driver does not answer."""


@click.command
@click.pass_obj
def terminate(folder: str) -> None:
    """Ask the driver to end. It does where its configuration allows that: aeron.driver.termination.validator. This is
    the one verb that writes; it leaves the folder of a driver that does not run as it is."""
    with open_cnc(folder) as found:
        if not found.is_live(now_ms()):
            where = f"{folder}/{CNC_NAME}"
            raise StoreUnavailable(where, found="no driver that runs", expected="one", hint="nothing was changed")
    cnc = CncMemory.map(Path(folder))
    commands = ManyToOneRingBuffer(cnc.to_driver)
    type_id, data = encode(TerminateDriver(commands.next_correlation_id(), NO_ANSWER, b""))
    if not commands.write(type_id, data):
        raise WriteFailed(folder, found="a full buffer of commands", hint="does the driver live? everlog driver DIR")
