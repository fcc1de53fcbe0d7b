"""Distributes work of different sizes over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
TASKS_PER_CORE = 4
"""Several tasks per core, so that a task that takes longer than its size suggests does not delay the end."""
TASK_BYTES = 2 << 30
"""The work that justifies a task: Spark and a Python worker need about ten milliseconds for each."""
OPENING_BYTES = 4 << 20
"""The cost of opening a store or finding a part of one, as bytes read."""
ITEM_BYTES = 4096
"""The cost of an item, so that many empty items are distributed, too."""


def balance(items: Sequence[T], byte_count: Callable[[T], int], tasks: int) -> list[list[T]]:
    """Distribute ``items`` over at most ``tasks`` groups of about the same size, the largest group first. A group keeps
    the order of ``items``; every item is in one group, and no group is empty."""
    count = max(1, min(tasks, len(items)))
    heap = [(0, index) for index in range(count)]
    groups: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(items)), key=lambda n: (-byte_count(items[n]), n)):
        held, index = heapq.heappop(heap)
        groups[index].append(number)
        heapq.heappush(heap, (held + byte_count(items[number]) + ITEM_BYTES, index))
    sizes = {index: held for held, index in heap}
    order = sorted((index for index in range(count) if groups[index]), key=lambda index: (-sizes[index], index))
    return [[items[n] for n in sorted(groups[index])] for index in order]


def task_count(byte_count: int, items: int, cores: int) -> int:
    """The number of tasks for ``items`` with ``byte_count`` bytes in total: a multiple of ``cores``, from one to
    :data:`TASKS_PER_CORE` tasks per core depending on the amount of work."""
    wanted = (byte_count + items * OPENING_BYTES) // TASK_BYTES
    return min(max(-(-wanted // cores), 1), TASKS_PER_CORE) * cores
