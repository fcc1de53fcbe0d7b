"""A number of seconds as a value on the command line."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.param_type import ParamType

MAX_SECONDS = 1e9
"""Some thirty years: system calls take no infinite timeout."""


class Seconds(ParamType[float]):
    """A number of seconds from ``least`` to ``MAX_SECONDS``. ``inf`` and ``nan`` are refused; click's own ranges accept
    ``nan``."""

    name = "seconds"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number and check its range."""
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = float("nan")
        if not self._least <= seconds <= MAX_SECONDS:
            self.fail(f"{value!r} is not a number of seconds from {self._least:g} to {MAX_SECONDS:g}", param, ctx)
        return seconds
