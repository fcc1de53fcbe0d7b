"""The order in which the original prints a map: the iteration order of an open-addressing hash table. Source: Agrona,
Long2LongHashMap, Hashing."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = (1 << 64) - 1
_MIN_CAPACITY = 8
_LOAD_FACTOR = 0.65


def java_map_order(keys: Iterable[int]) -> list[int]:
    """The keys in iteration order, after inserting them in the given order."""
    capacity = _MIN_CAPACITY
    table: list[int | None] = [None] * capacity
    for size, key in enumerate(keys, 1):
        _put(table, key)
        if size > int(capacity * _LOAD_FACTOR):
            old, capacity = table, capacity * 2
            table = [None] * capacity
            for kept in old:
                if kept is not None:
                    _put(table, kept)
    # Iteration goes down from the first free slot and wraps around; from the end if the last slot is free.
    start = capacity if table[capacity - 1] is None else table.index(None)
    slots = (table[(start - 1 - step) % capacity] for step in range(capacity))
    return [key for key in slots if key is not None]


def _put(table: list[int | None], key: int) -> None:
    place = _hash(key) % len(table)
    while table[place] is not None:
        place = (place + 1) % len(table)
    table[place] = key


def _hash(key: int) -> int:
    """Half of Agrona's even hash, which indexes keys and values in one array."""
    x = key & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    x ^= x >> 31
    mixed = (x ^ (x >> 32)) & 0xFFFFFFFF
    return ((mixed << 1) - (mixed << 8)) >> 1
