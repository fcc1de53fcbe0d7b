"""Errors of tasks, which Spark reports to the driver as text below a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from everlog import errors
from everlog.errors import EverlogError

OUR_ERROR = re.compile(r"everlog\.errors\.([A-Za-z]+): ([^\n]+)")


def our_error(error: Exception) -> EverlogError | None:
    """The everlog error that a task ended with; ``None`` for any other."""
    if isinstance(error, EverlogError) or not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    for kind, text in reversed(OUR_ERROR.findall(str(error))):
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, EverlogError):
            return found(text)
    return None


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Around an action of Spark: raise an everlog error without Spark's wrapping."""
    try:
        yield
    except Exception as error:
        ours = our_error(error)
        if ours is None:
            raise
        raise ours from error
