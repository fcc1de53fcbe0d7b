"""Applies a function to many stores: in turn on local disks, concurrently if any store is remote, as each call then
waits for the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

MAX_CONCURRENT_CALLS = 32
"""Concurrent calls for remote stores; object stores answer many requests as fast as one."""
_AHEAD = 4 * MAX_CONCURRENT_CALLS

A = TypeVar("A")
B = TypeVar("B")


def is_remote(path: str) -> bool:
    """Whether a path is a URL."""
    return "://" in path


def concurrent_map(function: Callable[[A], B], items: Sequence[A], paths: Iterable[str]) -> Iterator[B]:
    """Yield ``function(item)`` for each item, in order; ``paths`` are the items' locations. An error is raised in its
    turn and cancels the later calls."""
    if len(items) < 2 or not any(map(is_remote, paths)):
        yield from map(function, items)
        return
    with ThreadPoolExecutor(MAX_CONCURRENT_CALLS, thread_name_prefix="everlog-map") as pool:
        rest = iter(items)
        waiting = [pool.submit(function, item) for item in islice(rest, _AHEAD)]
        try:
            while waiting:
                yield waiting.pop(0).result()
                waiting += [pool.submit(function, item) for item in islice(rest, 1)]
        finally:
            for future in waiting:
                future.cancel()
