"""A process that is told what to do by lines on stdin, and answers with lines of which the last is ``ok ...`` or
``error ...``; ``ready ...`` once it serves."""

from __future__ import annotations

import contextlib
import select
import subprocess
from collections.abc import Sequence
from typing import IO, Self

SECONDS_TO_ANSWER = 90.0


class PeerError(Exception):
    """What the process threw."""


class LineProcess:
    """Use as a context manager, or end it with :meth:`close` or :meth:`kill`. :meth:`ask` raises :class:`PeerError`
    with what the process answered, :class:`TimeoutError` when it doesn't, :class:`EOFError` when it has died."""

    def __init__(self, command: Sequence[str]) -> None:
        """Starts it and waits until it serves; ``greeting`` is what it said."""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._waiting_lines: list[str] = []
        self._part = b""
        try:
            self.greeting, _ = self.answer()
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets it end cleanly, once it has answered; then kills what is left of it."""
        try:
            if self.process.poll() is None:
                self.ask("close")
                self.process.wait(SECONDS_TO_ANSWER)
        finally:
            self.kill()

    def kill(self) -> None:
        """As ``kill -9`` does. Idempotent."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def ask(self, *words: object) -> tuple[list[str], list[str]]:
        """The words behind ``ok`` and the lines before it."""
        self.tell(*words)
        return self.answer()

    def tell(self, *words: object) -> None:
        """A command; :meth:`answer` must follow."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(" ".join(str(word) for word in words).encode() + b"\n")
        except BrokenPipeError as broken:
            raise EOFError(f"the peer ended with {self.process.wait()}") from broken

    def answer(self) -> tuple[list[str], list[str]]:
        """Of a command that was told."""
        lines: list[str] = []
        while True:
            line = self._line()
            kind, _, rest = line.partition(" ")
            if kind in ("ok", "ready"):
                return rest.split(), lines
            if kind == "error":
                raise PeerError(rest)
            if not self.take_aside(line):
                lines.append(line)

    def take_aside(self, line: str) -> bool:
        """Whether a line before an answer is no part of it, and was taken care of."""
        return False

    def _line(self) -> str:
        stdout: IO[bytes] | None = self.process.stdout
        assert stdout is not None
        while not self._waiting_lines:
            if not select.select([stdout], [], [], SECONDS_TO_ANSWER)[0]:
                raise TimeoutError(f"the peer did not answer within {SECONDS_TO_ANSWER} s")
            data = stdout.read(1 << 20)
            if not data:
                raise EOFError(f"the peer ended with {self.process.wait()}")
            *lines, self._part = (self._part + data).split(b"\n")
            self._waiting_lines = [line.decode() for line in reversed(lines)]
        return self._waiting_lines.pop()
