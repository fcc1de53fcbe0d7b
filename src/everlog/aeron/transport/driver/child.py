"""A media driver in a child process that never outlives its parent.

The parent writes a pickled :class:`Configuration` to the child's stdin and keeps the pipe open. The child stops at
the pipe's end of file, which comes no matter how the parent ends. The child reports on stdout with pickled tuples:
``("warning", text)`` any number of times, then ``("ready", pid)`` or ``("failed", error)``.
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

END_TIMEOUT_S = 10.0
SWITCH_INTERVAL_S = 0.0002
"""How long one thread of the driver may hold the interpreter lock while another waits for it. Datagrams and clients
would have to wait for Python's default of 5 ms."""
MODULE = "everlog.aeron.transport.driver.child"


class ChildDriver(RunningDriver):
    """A driver in a child process.

    The child has its own process group, so that the terminal's Ctrl-C reaches the parent alone. It has no session of
    its own: Linux first divides processors among sessions (autogroups), so a driver that mostly sleeps would wait tens
    of milliseconds for clients that spin."""

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
            raise StoreUnavailable(self.dir, found=f"the media driver exited with code {code} at startup") from error

    @property
    def is_running(self) -> bool:
        """Whether the child process still runs."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has stopped. Returns ``False`` if it still runs after ``timeout_s`` seconds."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Stop the driver, and delete its folder if the configuration says so. Idempotent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if not self.wait(END_TIMEOUT_S):
            self._process.terminate()
        self._kill()

    def kill(self) -> None:
        """Kill the process as ``kill -9`` does; nothing is cleaned up."""
        self._process.kill()
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None and not self.wait(END_TIMEOUT_S):
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):  # the child may not have read everything
                    pipe.close()


def serve(stdin: IO[bytes], stdout: IO[bytes]) -> int:
    """Run the child process. Returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a warning on a terminal with `stty tostop` must not stop the driver
    configuration: Configuration = pickle.load(stdin)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def report(kind: str, value: Any) -> None:
        stdout.write(pickle.dumps((kind, value)))
        stdout.flush()

    from everlog.aeron.transport.driver.embedded import EmbeddedDriver

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        driver = EmbeddedDriver(configuration, lambda text: report("warning", text), on_end=stop.set)
    except EverlogError as error:
        report("failed", error)
        return error.exit_code
    with driver:
        report("ready", os.getpid())
        threading.Thread(target=_await_parent, args=(stdin, stop), name="parent", daemon=True).start()
        stop.wait()
    return 0


def _await_parent(stdin: IO[bytes], stop: threading.Event) -> None:
    """Set ``stop`` when the parent closes its end of the pipe, or dies."""
    stdin.read(1)
    stop.set()


if __name__ == "__main__":
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer))
