"""A server in a child process that never outlives its parent.

The parent writes a pickled configuration to the child's stdin and keeps the pipe open. The child stops at the pipe's
end of file, which comes no matter how the parent ends. The child reports on stdout with pickled tuples:
``("warning", text)`` any number of times, then ``("ready", value)`` or ``("failed", error)``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any

from everlog.errors import EverlogError, StoreUnavailable

END_TIMEOUT_S = 10.0
SWITCH_INTERVAL_S = 0.0002
"""How long one thread of a server may hold the interpreter lock while another waits for it. Datagrams and clients would
have to wait for Python's default of 5 ms."""
Warn = Callable[[str], None]


class ChildProcess:
    """A child that runs ``module``, which calls :func:`serve`. ``what`` and ``where`` name the server in errors;
    ``ready`` is what it reported when it was ready. Raises the error with which the child failed to start, and
    :class:`StoreUnavailable` if it died.

    The child has its own process group, so that the terminal's Ctrl-C reaches the parent alone. It has no session of
    its own: Linux first divides processors among sessions (autogroups), so a server that mostly sleeps would wait tens
    of milliseconds for clients that spin."""

    def __init__(self, module: str, configuration: object, warn: Warn, *, what: str, where: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        try:
            self.ready = self._begin(configuration, warn, what, where)
        except BaseException:
            self._reap()
            raise

    def _begin(self, configuration: object, warn: Warn, what: str, where: str) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(pickle.dumps(configuration))
            stdin.flush()
            while True:
                kind, value = pickle.load(stdout)
                if kind == "ready":
                    return value
                if kind == "failed":
                    raise value
                warn(value)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            raise StoreUnavailable(where, found=f"{what} exited with code {code} at startup") from error

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the child process still runs."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the child has ended. Returns ``False`` if it still runs after ``timeout_s`` seconds."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Have the child end in good order; kill it if it does not. Idempotent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if not self.wait(END_TIMEOUT_S):
            self._process.terminate()
        self._reap()

    def kill(self) -> None:
        """Kill the process as ``kill -9`` does; nothing is cleaned up."""
        self._process.kill()
        self._reap()

    def _reap(self) -> None:
        if self._process.poll() is None and not self.wait(END_TIMEOUT_S):
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):  # the child may not have read everything
                    pipe.close()


Start = Callable[[Any, Warn, Callable[[], None]], tuple[AbstractContextManager[object], Any]]
"""Starts the server: ``start(configuration, warn, on_end)`` returns it and what the parent is told. ``on_end`` is to be
called when the server ends by itself."""


def serve(start: Start, stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None) -> int:
    """Run the child process until its parent ends it. Returns its exit code."""
    commands, reports = stdin or sys.stdin.buffer, stdout or sys.stdout.buffer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a warning on a terminal with `stty tostop` must not stop the server
    configuration = pickle.load(commands)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def report(kind: str, value: Any) -> None:
        reports.write(pickle.dumps((kind, value)))
        reports.flush()

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        server, ready = start(configuration, lambda text: report("warning", text), stop.set)
    except EverlogError as error:
        report("failed", error)
        return error.exit_code
    with server:
        report("ready", ready)
        threading.Thread(target=_await_parent, args=(commands, stop), name="parent", daemon=True).start()
        stop.wait()
    return 0


def _await_parent(stdin: IO[bytes], stop: threading.Event) -> None:
    """Set ``stop`` when the parent closes its end of the pipe, or dies. Reads the descriptor: a thread that waits in a
    buffered reader holds its lock, with which Python aborts a process that ends by itself."""
    os.read(stdin.fileno(), 1)
    stop.set()
