"""What the verbs share: the session, the data source's options, progress, and the unwrapping of Spark's errors."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.cli.progress import ProgressLine
from everlog.cli.spark.interrupts import interruptible
from everlog.cli.text import is_terminal
from everlog.core.report import Progress
from everlog.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Running:
    """How to run a pipeline."""

    master: str
    settings: dict[str, str]
    log: str | None

    @contextlib.contextmanager
    def session(self, name: str) -> Iterator[tuple[SparkSession, Progress | None]]:
        """Provide a session, and a progress line if stderr is a terminal. Errors of everlog are raised without Spark's
        wrapping, and Ctrl-C prints one line."""
        from everlog.spark.session import active_session, session_on
        from everlog.spark.task_errors import unwrap_errors

        with interruptible(name) as take_interrupts, contextlib.ExitStack() as stack:
            log = self.log or os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "spark.log")
            is_ours = active_session() is None
            spark = session_on(self.master, f"everlog {name}", settings=self.settings, log_file=Path(log))
            if is_ours:
                stack.callback(spark.stop)
                take_interrupts()
            line = stack.enter_context(ProgressLine())
            with unwrap_errors():
                yield spark, line if is_terminal(sys.stderr) else None


def spark_options(command: F) -> F:
    """Decorator: adds ``--master``, ``--conf``, ``--log``; the command gets them as ``running``."""

    @click.pass_context
    def run(ctx: click.Context, /, master: str, conf: tuple[str, ...], log: str | None, **given: Any) -> Any:
        settings = dict(pair("--conf", text) for text in conf)
        return ctx.invoke(command, running=Running(master=master, settings=settings, log=log), **given)

    wrapped: Any = run
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])
    for option in (
        click.option("--log", metavar="FILE", help="Write the log of Spark and its workers to this file."),
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A Spark setting; may be repeated."),
        click.option("--master", default="local[*]", show_default=True, help="Where Spark runs."),
    ):
        wrapped = option(wrapped)
    found: F = wrapped
    return found


def source_options(command: F) -> F:
    """Decorator: adds ``--option NAME=VALUE``; the command gets a tuple of texts as ``option``."""
    text = "An option of the data source, such as stream=3; may be repeated, also to name more streams."
    return click.option("--option", "-o", metavar="NAME=VALUE", multiple=True, help=text)(command)


def pair(option: str, text: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``. Raises :class:`UsageError` if the text is not of this form."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(option, found=repr(text), expected="NAME=VALUE")
    return name.strip(), value


def chosen_options(given: tuple[str, ...]) -> dict[str, str]:
    """``--option``s by name, ignoring case; repeated ``stream`` options are joined. Raises :class:`UsageError` for
    paths, and for any other option with two values."""
    options: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in (pair("--option", text) for text in given):
        if name.lower() in ("path", "paths"):
            raise UsageError("--option", found=name, message=f"--option {name} is not allowed: give paths as arguments")
        first = names.setdefault(name.lower(), name)
        before = options.get(first)
        if before is not None and before != value:
            if name.lower() != "stream":
                message = f"--option {name} is given twice with different values"
                raise UsageError("--option", found=value, expected=before, message=message)
            value = f"{before},{value}"
        options[first] = value
    return options


def scan_options(paths: tuple[str, ...], given: tuple[str, ...]) -> dict[str, str]:
    """Paths and ``--option``s in the data source's form. Raises :class:`UsageError`."""
    import json

    return chosen_options(given) | {"paths": json.dumps(list(paths))}


def size_of(option: str, text: str) -> int:
    """Bytes of ``64m`` or ``2g``. Raises :class:`UsageError`."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)", text.strip().lower())
    size = int(match[1]) << 10 * " kmgt".index(match[2] or " ") if match else 0
    if size < 1:
        raise UsageError(option, found=repr(text), expected="a number of bytes such as 64m or 2g")
    return size
