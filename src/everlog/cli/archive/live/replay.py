"""``everlog archive DIR replay``: prints a recording's messages as a running archive replays them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from everlog.aeron.frames.columns import TIMESTAMP_UNITS
from everlog.cli.aeron_stream.sub import Printing, message_format
from everlog.cli.archive.maintenance import recording_argument
from everlog.cli.archive.running import connect, connection_options
from everlog.cli.param_type import ParamType
from everlog.cli.progress import ProgressLine
from everlog.cli.text import print_error
from everlog.core.counting import counted
from everlog.time_units import NS_PER_S

if TYPE_CHECKING:
    from everlog.aeron.archive.client import AeronArchive
    from everlog.aeron.transport.client.images.image_reader import Header

STREAM_ID = 9_001
CHANNEL = "aeron:ipc"
MAX_SLEEP_S = 0.1
FLUSH_EVERY = 256


class Factor(ParamType[float]):
    """A factor of speed: more than 0."""

    name = "factor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number and check its range."""
        try:
            factor = float(value)
        except (TypeError, ValueError):
            factor = 0.0
        if not 0 < factor <= 1e9:
            self.fail(f"{value!r} is not a number above 0", param, ctx)
        return factor


@dataclass(slots=True)
class Pace:
    """Waits so that messages come as far apart as their times say, divided by ``factor``. The times are in the reserved
    value, in units of ``unit_ns`` nanoseconds."""

    unit_ns: int
    factor: float
    _first_ns: int | None = None
    _begun: float = 0.0

    def wait(self, header: Header) -> None:
        """Wait until the message's time. A message without one, or with an earlier one, comes at once."""
        at_ns = header.reserved_value * self.unit_ns
        if at_ns <= 0:
            return
        if self._first_ns is None:
            self._first_ns, self._begun = at_ns, time.monotonic()
        due = self._begun + (at_ns - self._first_ns) / NS_PER_S / self.factor
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, MAX_SLEEP_S))


@click.command
@recording_argument
@connection_options
@click.option("--from", "position", type=click.IntRange(min=0), metavar="POSITION", help="Begin here: a frame's start.")
@click.option("--length", type=click.IntRange(min=0), metavar="BYTES", help="Stop after this many bytes of the stream.")
@click.option("--follow", is_flag=True, help="Go on with what is recorded later, until the recording stops.")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Stop after N messages.")
@click.option(
    "--pace",
    type=Factor(),
    metavar="FACTOR",
    help="Print as fast as it was recorded, times FACTOR; needs --timestamp-from. Default: as fast as it goes.",
)
@click.option("--timestamp-from", type=click.Choice([*TIMESTAMP_UNITS]), help="Where a message's time is, for --pace.")
@click.option("--replay-channel", default=CHANNEL, show_default=True, help="The channel to replay to.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, with payloads in base64.")
@click.option("--raw", is_flag=True, help="Print the bare payload bytes, with nothing between them.")
@click.option("--delimiter", metavar="TEXT", help=r"With --raw: print TEXT after each payload; \n, \t, \0, \xHH work.")
@click.pass_obj
def replay(
    target: str,
    /,
    recording: int,
    position: int | None,
    length: int | None,
    follow: bool,
    count: int | None,
    pace: float | None,
    timestamp_from: str | None,
    replay_channel: str,
    as_json: bool,
    raw: bool,
    delimiter: str | None,
    **connection: Any,
) -> int:
    """Print the messages of RECORDING, each on a line of its own, unchanged. On a terminal, control characters are
    escaped."""
    if as_json and raw:
        raise click.UsageError("--json and --raw exclude each other")
    if delimiter is not None and not raw:
        raise click.UsageError("--delimiter needs --raw")
    if (pace is None) != (timestamp_from is None):
        raise click.UsageError("--pace and --timestamp-from need each other")
    if follow and length is not None:
        raise click.UsageError("--follow and --length exclude each other")
    from everlog.aeron.archive.client import ReplayParams

    pacing = None if pace is None or timestamp_from is None else Pace(TIMESTAMP_UNITS[timestamp_from], pace)
    params = ReplayParams(position=position, length=length, follow=follow)
    printing = Printing(message_format(as_json, raw, delimiter), count)
    with connect(target, **connection) as archive, ProgressLine() as line:
        start = archive.start_position(recording) if position is None else position
        if position is None and start == _last_position(archive, recording, is_awaited=follow or length is not None):
            print_error("0 messages printed")  # an archive refuses to replay a recording without any
            return 0
        end = 0 if follow else archive.max_recorded_position(recording) if length is None else start + length
        with archive.replay_messages(recording, replay_channel, STREAM_ID, params) as messages:
            for payload, header in messages:
                if pacing is not None:
                    printing.flush()
                    pacing.wait(header)
                printing.take(payload, header)
                if pacing is not None or follow or printing.done % FLUSH_EVERY == 0:
                    printing.flush()
                line(f"recording {recording}", header.position - start, max(end - start, 0))
                if printing.is_enough:
                    break
        printing.flush()
    print_error(f"{counted(printing.done, 'message')} printed")
    return 0


def _last_position(archive: AeronArchive, recording: int, *, is_awaited: bool) -> int | None:
    """Where a recording ends; ``None`` if what it will have is waited for."""
    return archive.stop_position(recording) if is_awaited else archive.max_recorded_position(recording)
