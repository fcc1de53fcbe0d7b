"""Looking at many stores before a query: one after another on a disk, many at once where each look waits for answers
from far away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

MAX_CONCURRENT_CALLS = 32
"""Of remote stores; object stores answer many requests as fast as one."""
_AHEAD = 4 * MAX_CONCURRENT_CALLS

A = TypeVar("A")
B = TypeVar("B")


def is_remote(path: str) -> bool:
    """Whether a path is a URL."""
    return "://" in path


def concurrent_map(look: Callable[[A], B], things: Sequence[A], paths: Iterable[str]) -> Iterator[B]:
    """``look(thing)`` for each thing, in order; ``paths`` are where they are. An error is raised in its turn, and those
    behind it are given up."""
    if len(things) < 2 or not any(map(is_remote, paths)):
        yield from map(look, things)
        return
    with ThreadPoolExecutor(MAX_CONCURRENT_CALLS, thread_name_prefix="everlog-look") as pool:
        rest = iter(things)
        waiting = [pool.submit(look, thing) for thing in islice(rest, _AHEAD)]
        try:
            while waiting:
                yield waiting.pop(0).result()
                waiting += [pool.submit(look, thing) for thing in islice(rest, 1)]
        finally:
            for future in waiting:
                future.cancel()
