"""``everlog driver DIR``: prints the driver's process id, start and last heartbeat."""

from __future__ import annotations

import time

import click

from everlog.cli.driver.sampling import cnc_path, local_time, now_ms, open_cnc, report_problem
from everlog.cli.text import json_line, printable


def print_summary(folder: str, as_json: bool) -> int:
    """Print the lines of DriverTool; returns the exit code."""
    with open_cnc(folder) as cnc:
        header, heartbeat = cnc.header, cnc.heartbeat_ms()
        state = {"file": cnc_path(folder), **cnc.to_dict(), "live": cnc.is_live(now_ms())}
        code = report_problem(cnc)
    if as_json:
        click.echo(json_line(state))
        return code
    start = _second(header.start_timestamp_ms)
    activity = "-" if heartbeat is None else _second(heartbeat)
    click.echo(f"Command `n Control file: {printable(cnc_path(folder))}")
    click.echo(f"Version: {header.cnc_version}, PID: {header.pid}")
    click.echo(f"{time.strftime('%H:%M:%S')} (start: {start}, activity: {activity})")
    return code


def _second(timestamp_ms: int) -> str:
    moment = local_time(timestamp_ms)
    return f"{timestamp_ms}ms" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
