"""A media driver in a process of its own, which its parent starts, talks to over a pipe, and outlives it never.

The parent writes a pickled :class:`Configuration` to the child's stdin and keeps that pipe open: its end tells the
child to end, however the parent went. The child answers with pickled tuples on stdout: ``("warning", text)``, then
``("ready", pid)`` or ``("failed", error)``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import IO, Any

from everlog.aeron.transport.driver.running_driver import RunningDriver, Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.errors import EverlogError, StoreUnavailable

SECONDS_TO_END = 10.0
SWITCH_SECONDS = 0.0002
"""How long one thread of the driver may keep the interpreter from another: by default it is 5 ms, which datagrams and
clients would wait for."""
MODULE = "everlog.aeron.transport.driver.child"


class ChildDriver(RunningDriver):
    """A driver in a child process. It ignores the terminal's Ctrl-C, which is the parent's to handle: a process group
    of its own does that, and not a session of its own, because Linux shares out processors among sessions first (its
    autogroups), and a driver that sleeps much then waits for tens of milliseconds behind clients that spin."""

    def __init__(self, configuration: Configuration, warn: Warn) -> None:
        self.dir = configuration.dir
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        try:
            self.pid = self._begin(configuration, warn)
        except BaseException:
            self._kill()
            raise

    def _begin(self, configuration: Configuration, warn: Warn) -> int:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(pickle.dumps(configuration))
            stdin.flush()
            while True:
                kind, value = pickle.load(stdout)
                if kind == "ready":
                    return int(value)
                if kind == "failed":
                    raise value
                warn(value)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            raise StoreUnavailable(self.dir, found=f"a media driver that ended with {code} when it began") from error

    @property
    def is_running(self) -> bool:
        """Until it is closed, has been told by a client to end, or has died."""
        return self._process.poll() is None

    def wait(self, seconds: float | None = None) -> bool:
        """Until it does not run any more; ``False`` when that takes longer."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Ends it; its folder is deleted where the configuration says so. Idempotent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if not self.wait(SECONDS_TO_END):
            self._process.terminate()
        self._kill()

    def kill(self) -> None:
        """As ``kill -9`` does: nothing is tidied up."""
        self._process.kill()
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None and not self.wait(SECONDS_TO_END):
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                    pipe.close()


def serve(stdin: IO[bytes], stdout: IO[bytes]) -> int:
    """The child's whole life; its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a warning for a terminal with `stty tostop` must not stop it
    configuration: Configuration = pickle.load(stdin)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def say(kind: str, value: Any) -> None:
        stdout.write(pickle.dumps((kind, value)))
        stdout.flush()

    from everlog.aeron.transport.driver.embedded import EmbeddedDriver

    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        driver = EmbeddedDriver(configuration, lambda text: say("warning", text), on_end=stop.set)
    except EverlogError as error:
        say("failed", error)
        return error.exit_code
    with driver:
        say("ready", os.getpid())
        threading.Thread(target=_await_parent, args=(stdin, stop), name="parent", daemon=True).start()
        stop.wait()
    return 0


def _await_parent(stdin: IO[bytes], stop: threading.Event) -> None:
    """Until the parent closes its end, or dies."""
    stdin.read(1)
    stop.set()


if __name__ == "__main__":
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer))
