"""``everlog driver DIR stat``: prints every counter."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.aeron.transport.format.counters import (
    PER_IMAGE,
    PUBLISHER_LIMIT,
    PUBLISHER_POSITION,
    RECEIVE_CHANNEL_STATUS,
    RECEIVER_POSITION,
    SEND_CHANNEL_STATUS,
    SENDER_LIMIT,
    SYSTEM,
    Counter,
)
from everlog.cli.driver.sampling import now_ms, open_cnc, repeat, report_problem, stat_options
from everlog.cli.param_type import ParamType
from everlog.cli.text import json_line, printable

STREAM_TYPES = {*range(PUBLISHER_LIMIT, RECEIVER_POSITION + 1), SENDER_LIMIT, PER_IMAGE, PUBLISHER_POSITION}
CHANNEL_TYPES = {SEND_CHANNEL_STATUS, RECEIVE_CHANNEL_STATUS}
RULER = "=" * 70


class Pattern(ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        """Compile the expression."""
        try:
            return re.compile(str(value))
        except (re.error, OverflowError) as error:  # OverflowError: a repeat count with too many digits
            self.fail(f"not a regular expression: {error}", param, ctx)
        except RecursionError:
            self.fail("not a regular expression: groups are nested too deeply", param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which counters to print: those whose type or key contains the patterns. As in AeronStat, a pattern for a field
    that a counter lacks does not exclude it."""

    type_id: re.Pattern[str] | None = None
    identity: re.Pattern[str] | None = None
    session: re.Pattern[str] | None = None
    stream: re.Pattern[str] | None = None
    channel: re.Pattern[str] | None = None

    def has(self, counter: Counter) -> bool:
        """Whether a counter is printed."""
        if not _fits(self.type_id, counter.type_id):
            return False
        key = counter.key_fields
        if counter.type_id == SYSTEM:
            return _fits(self.identity, key.get("system_counter_id"))
        if counter.type_id in STREAM_TYPES:
            pairs = (
                (self.identity, "registration_id"),
                (self.session, "session_id"),
                (self.stream, "stream_id"),
                (self.channel, "channel"),
            )
            return all(_fits(pattern, key.get(name)) for pattern, name in pairs)
        return counter.type_id not in CHANNEL_TYPES or _fits(self.channel, key.get("channel"))


def _fits(pattern: re.Pattern[str] | None, value: object) -> bool:
    return pattern is None or pattern.search("" if value is None else str(value)) is not None


@click.command
@stat_options
@click.option("--type", "type_id", type=Pattern(), help="Match the type id: 0 for system counters, 1-5, 9 positions.")
@click.option("--identity", type=Pattern(), help="Match a system counter's number, or a position's registration id.")
@click.option("--session", type=Pattern(), help="Match a position's session id.")
@click.option("--stream", type=Pattern(), help="Match a position's stream id.")
@click.option("--channel", type=Pattern(), help="Match the channel of a position or a channel status.")
@click.pass_obj
def stat(folder: str, /, watch: float | None, as_json: bool, **patterns: re.Pattern[str] | None) -> int:
    """Print every counter: id, value, label. The options that select counters take regular expressions."""
    selection = Selection(**patterns)
    show = _show_json if as_json else _show

    def once() -> int:
        with open_cnc(folder) as cnc:
            show(cnc, [counter for counter in cnc.counters() if selection.has(counter)], click.echo)
            return report_problem(cnc)

    return repeat(watch, once)


def _show(cnc: CncFile, counters: list[Counter], echo: Callable[[str], None]) -> None:
    heartbeat = cnc.heartbeat_ms()
    age = "unknown" if heartbeat is None else f"{now_ms() - heartbeat}ms"
    width = len(str(max(cnc.max_counter_id, 0)))
    clock = time.strftime("%H:%M:%S")
    lines = [f"{clock} - Aeron Stat (CnC v{cnc.version}), pid {cnc.header.pid}, heartbeat age {age}", RULER]
    lines += [f"{c.counter_id:{width}}: {c.value:26,} - {printable(c.label)}" for c in counters]
    echo("\n".join([*lines, "--"]))


def _show_json(cnc: CncFile, counters: list[Counter], echo: Callable[[str], None]) -> None:
    heartbeat, now = cnc.heartbeat_ms(), now_ms()
    state = {
        "time_ms": now,
        "version": cnc.version,
        "pid": cnc.header.pid,
        "heartbeat_age_ms": None if heartbeat is None else now - heartbeat,
        "counters": [counter.to_dict() for counter in counters],
    }
    echo(json_line(state))
