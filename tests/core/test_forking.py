"""What a forked child lets go of."""

from __future__ import annotations

import gc
import os

from everlog.core.forking import OpenObjects


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name


def told_by_a_child(left: list[str]) -> str:
    """What the child finds in ``left``."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(into, " ".join(left).encode())
        os._exit(0)
    os.close(into)
    os.waitpid(pid, 0)
    with os.fdopen(out) as pipe:
        return pipe.read()


def test_a_child_leaves_what_is_open_kind_by_kind_and_its_parent_nothing() -> None:
    left: list[str] = []
    first = OpenObjects[Thing](lambda thing: left.append(f"first-{thing.name}"))
    second = OpenObjects[Thing](lambda thing: left.append(f"second-{thing.name}"))
    one, closed, other, forgotten = Thing("one"), Thing("closed"), Thing("other"), Thing("forgotten")
    second.add(other)
    for thing in (one, closed, forgotten):
        first.add(thing)
    first.discard(closed)
    del thing, forgotten
    gc.collect()
    assert list(first) == [one]
    assert told_by_a_child(left) == "first-one second-other"
    assert left == []
