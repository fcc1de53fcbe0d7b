"""Work of different sizes, dealt out to tasks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
TASKS_PER_CORE = 4
"""So that a task that takes longer than its bytes say does not keep the others waiting at the end."""
TASK_BYTES = 2 << 30
"""What is worth a task of its own: Spark and a Python worker need some ten milliseconds for each."""
OPENING_BYTES = 4 << 20
"""What opening a store, or looking for a part of one, counts beside reading."""
ITEM_BYTES = 4096
"""Each item counts a little, so that many empty ones are dealt out, too."""


def balance(items: Sequence[T], byte_count: Callable[[T], int], tasks: int) -> list[list[T]]:
    """Share ``items`` out to at most ``tasks`` groups of about the same size, the largest group first. A group keeps
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
    """How many tasks to deal ``items`` of together ``byte_count`` out to: as many for each core, one up to
    :data:`TASKS_PER_CORE` of them, the more the more there is to do."""
    wanted = (byte_count + items * OPENING_BYTES) // TASK_BYTES
    return min(max(-(-wanted // cores), 1), TASKS_PER_CORE) * cores
