"""Child processes that serve until their parent ends them, or until they end by themselves."""

from __future__ import annotations

import pickle
import subprocess
import sys

PROGRAM = """
import contextlib, sys, threading
from everlog.runtime.child import serve

def start(configuration, warn, on_end):
    if configuration == "ends":
        threading.Timer(0.1, on_end).start()
    return contextlib.nullcontext(), None

sys.exit(serve(start))
"""


def run(configuration: str, *, closes: bool) -> tuple[int, bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.write(pickle.dumps(configuration))
    child.stdin.flush()
    if closes:
        child.stdin.close()
    code = child.wait(30)
    with child:
        return code, child.stderr.read()


def test_a_server_that_ends_by_itself_ends_its_process_in_good_order() -> None:
    """Not by an abort, while the thread that waits for the parent reads."""
    assert run("ends", closes=False) == (0, b"")


def test_a_server_ends_when_its_parent_closes_the_pipe() -> None:
    assert run("stays", closes=True) == (0, b"")
