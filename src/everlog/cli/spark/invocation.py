"""What the verbs share: the session, options of the data source, progress, and what Spark's errors say."""

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
    """How a pipeline is to be run."""

    master: str
    settings: dict[str, str]
    log: str | None

    @contextlib.contextmanager
    def session(self, name: str) -> Iterator[tuple[SparkSession, Progress | None]]:
        """A session, and where to tell of progress: on a terminal only. An error of ours that Spark wraps up comes out
        as itself, and Ctrl-C as one line."""
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
    """Decorator: ``--master``, ``--conf``, ``--log``; the command gets them as ``running``."""

    @click.pass_context
    def run(ctx: click.Context, /, master: str, conf: tuple[str, ...], log: str | None, **given: Any) -> Any:
        settings = dict(pair("--conf", text) for text in conf)
        return ctx.invoke(command, running=Running(master=master, settings=settings, log=log), **given)

    wrapped: Any = run
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])
    for option in (
        click.option("--log", metavar="FILE", help="Keep here what Spark and its workers say."),
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; may be given again."),
        click.option("--master", default="local[*]", show_default=True, help="Where Spark runs."),
    ):
        wrapped = option(wrapped)
    found: F = wrapped
    return found


def source_options(command: F) -> F:
    """Decorator: ``--option NAME=VALUE``; the command gets a tuple of texts as ``option``."""
    text = "An option of the data source, such as stream=3; may be given again, for other options and more streams."
    return click.option("--option", "-o", metavar="NAME=VALUE", multiple=True, help=text)(command)


def pair(option: str, text: str) -> tuple[str, str]:
    """``NAME=VALUE`` taken apart. Raises :class:`UsageError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(option, found=repr(text), expected="NAME=VALUE")
    return name.strip(), value


def chosen_options(given: tuple[str, ...]) -> dict[str, str]:
    """``--option``s by name, of which case says nothing; streams that are named one by one come together. Raises
    :class:`UsageError` for paths, and for an option with two values: one of them would be left out in silence."""
    options: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in (pair("--option", text) for text in given):
        if name.lower() in ("path", "paths"):
            raise UsageError("--option", found=name, expected="paths as arguments")
        first = names.setdefault(name.lower(), name)
        before = options.get(first)
        if before is not None and before != value:
            if name.lower() != "stream":
                raise UsageError("--option", found=f"{name} twice, with two values", expected="one of them")
            value = f"{before},{value}"
        options[first] = value
    return options


def scan_options(paths: tuple[str, ...], given: tuple[str, ...]) -> dict[str, str]:
    """Paths and ``--option``s as the data source takes them. Raises :class:`UsageError`."""
    import json

    return chosen_options(given) | {"paths": json.dumps(list(paths))}


def size_of(option: str, text: str) -> int:
    """Bytes, as ``64m`` or ``2g``. Raises :class:`UsageError`."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)", text.strip().lower())
    size = int(match[1]) << 10 * " kmgt".index(match[2] or " ") if match else 0
    if size < 1:
        raise UsageError(option, found=repr(text), expected="bytes, such as 64m or 2g")
    return size
