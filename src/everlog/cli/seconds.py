"""A length of time on the command line."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.param_type import ParamType

MAX_SECONDS = 1e9
"""Some thirty years: the system's calls take no length of time without end."""


class Seconds(ParamType[float]):
    """A number of seconds, from ``least`` to ``MAX_SECONDS``: no ``nan``, which no range of click's leaves out, and no
    ``inf``."""

    name = "seconds"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse and compare."""
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = float("nan")
        if not self._least <= seconds <= MAX_SECONDS:
            self.fail(f"{value!r} is no number of seconds from {self._least:g} to {MAX_SECONDS:g}", param, ctx)
        return seconds
