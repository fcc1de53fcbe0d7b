"""Reads recordings back."""

from __future__ import annotations

import array
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from everlog.aeron.archive.archive import Archive


def read(found: Archive, recording_id: int = 0, *where: int) -> list[bytes]:
    return [record.payload for record in found.replay(recording_id, *where)]


def record(recorder: Any, messages: list[tuple[bytes, int]], way: int) -> None:
    payloads, reserved = [m[0] for m in messages], [m[1] for m in messages]
    if way == 0:
        for payload, value in messages:
            recorder.append(payload, value)
    elif way == 1:
        recorder.append_many(payloads, reserved)
    elif way == 2:
        offsets = array.array("i", itertools.accumulate(map(len, payloads), initial=0))
        recorder.append_column(b"".join(payloads), offsets, array.array("q", reserved))
    else:
        for payload, value in messages:
            recorder.offer(payload, value)
        recorder.flush()


def until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


# Owners


def run(code: str, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **how
    )


HOLD = """
import sys
from everlog.aeron import archive
found = archive.open_archive(sys.argv[1], liveness_timeout_s=0)
recorder = found.extend_recording(0)
recorder.append(b"theirs")
print("open", flush=True)
sys.stdin.readline()
try:
    recorder.append(b"too late")
    print("appended", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""
