"""Processes that publish and subscribe, ours and the real Aeron's in Java, alone or as two ends, on a media driver.

``Client("everlog" | "java", folder)`` is one process; both kinds speak the commands of ``transport_client.py``. A
:class:`Driver` is the real media driver in Java, or ours. Java and the jar come from ``tools/aeron_java.py``; the flags
are those that Aeron's own throughput samples use.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal, Self

from tools import aeron_java

PROGRAM = Path(__file__).with_name("TransportBench.java")
FLAGS = ("-Xmx1g", "-XX:+UseParallelGC", "-Dagrona.disable.bounds.checks=true")
SECONDS_TO_END = 30.0
Kind = Literal["java", "everlog"]


class Process:
    """Speaks in lines. Use as a context manager. Raises :class:`SystemExit` when it fails."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def say(self, *words: object) -> None:
        """A command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def answer(self, expected: str = "ok") -> list[str]:
        """The words behind the expected one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        kind, *rest = line.split() or [""]
        if kind != expected:
            self.close()
            raise SystemExit(f"{self._name}: {line.strip() or 'it has ended'}")
        return rest

    def seconds(self) -> float:
        """Of the command that was said."""
        return float(self.answer()[1])

    def close(self) -> None:
        """Ends it. Idempotent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # the end of its input
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def java_command(*arguments: object, properties: tuple[str, ...] = ()) -> list[str]:
    """Of the Java program. Raises :class:`SystemExit` when it can't be had."""
    flags = (*FLAGS, *(f"-D{each}" for each in properties))
    try:
        jar = aeron_java.jar(download=True)
        return aeron_java.command(jar, "TransportBench", *arguments, source=PROGRAM, flags=flags)
    except aeron_java.Missing as missing:
        raise SystemExit(f"the peer, Aeron in Java, can't be had: {missing}") from missing


class Client(Process):
    """A process with one client."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        if kind == "java":
            command = java_command(folder, "client")
        else:
            command = [sys.executable, "-m", "benchmarks.transport_client", str(folder), "client"]
        super().__init__(f"the client of {kind}", command)

    def time(self, verb: str, channel: str, stream: int, *words: object) -> float:
        """Seconds of a command."""
        self.say(verb, channel, stream, *words)
        return self.seconds()


def time_both(verbs: tuple[str, str], ends: tuple[Client, Client], *words: object) -> float:
    """Seconds of the first end, of ``subscribe`` and ``publish``, or ``ping`` and ``pong``: which one waits begins."""
    waiting = 0 if verbs[0] == "subscribe" else 1
    ends[waiting].say(verbs[waiting], *words)
    ends[waiting].answer("waiting")
    ends[1 - waiting].say(verbs[1 - waiting], *words)
    first, _ = ends[0].seconds(), ends[1].seconds()
    return first


class Driver:
    """A media driver in a new folder in memory. ``properties`` (``name=value``) are for the real one alone, in whose
    process there is a client, too, unless it ``is_alone``. Use as a context manager."""

    def __init__(
        self, kind: Kind, threads: str = "SHARED", properties: tuple[str, ...] = (), *, is_alone: bool = False
    ) -> None:
        memory = Path("/dev/shm")
        self._root = Path(tempfile.mkdtemp(prefix="everlog-aeron-", dir=memory if memory.is_dir() else None))
        self.folder = self._root / "driver"
        self._process: Any
        if kind == "java":
            words = ("alone",) if is_alone else ()
            command = java_command(self.folder, threads, *words, properties=properties)
            self._process = Process("the driver of java", command)
        else:
            self._process = _our_driver(self.folder, threads)

    @property
    def pid(self) -> int:
        """Its process."""
        return int(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
        shutil.rmtree(self._root, ignore_errors=True)


def _our_driver(folder: Path, threads: str) -> Any:
    from everlog.aeron.transport.driver.media_driver import MediaDriver
    from everlog.aeron.transport.driver.settings.settings import ThreadingMode

    return MediaDriver.launch(dir=str(folder), threading_mode=ThreadingMode[threads])
