"""JLog's C library with a program of ours (``jlog_peer.c``) around it, built with gcc.

The source is that of the source package ``jlog`` 1.0.2 on PyPI (JLog 2.0), which ``make interop`` lets pip download
once to ``~/.cache/everlog-interop``. ``EVERLOG_JLOG_SOURCE`` names the folder of another version, configured (it has a
``jlog_config.h``), which is tested too; ``EVERLOG_JLOG_FLAGS`` are its own flags for gcc.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE, VERSION = "jlog", "1.0.2"
SHA256 = "46251e6bb0d27ccbb5c70011ba4bb903c8ada532f94667d19fdec5c0b864766a"
SOURCES = ("jlog.c", "jlog_io.c", "jlog_hash.c", "jlog_compress.c")
PROGRAM = Path(__file__).with_name("jlog_peer.c")
SECONDS_TO_ANSWER = 60.0
MAGIC = b"\x18\x73\x3a\x66"
EMPTY = MAGIC + bytes(12)
"""A whole message: an empty one of 1970."""


class Missing(Exception):
    """The library can't be had here; the text says why."""


def cache_folder() -> Path:
    """Where the download and the builds stay between runs; never in the project."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "everlog-interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True)
class Library:
    """A version of the library: where its source is, and more flags for gcc."""

    source: Path
    flags: tuple[str, ...] = ()

    @property
    def has_buffer(self) -> bool:
        """Whether it knows the pre-commit buffer and compression, as 2.6 does."""
        return (self.source / "jlog_compress.c").exists()


@cache
def from_pypi() -> Library:
    """JLog 2.0. Raises :class:`Missing`."""
    folder = cache_folder() / f"{PACKAGE}-{VERSION}" / "jlog"
    if not folder.exists():
        archive = cache_folder() / f"{PACKAGE}-{VERSION}.tar.gz"
        if not archive.exists():
            if os.environ.get("EVERLOG_INTEROP") != "download":
                raise Missing("JLog's C library was not downloaded yet: make interop does")
            _download(archive)
        with tarfile.open(archive) as tar:
            tar.extractall(cache_folder(), filter="data")
    return Library(folder)


def from_environment() -> Library:
    """The version that ``EVERLOG_JLOG_SOURCE`` names. Raises :class:`Missing`."""
    source = os.environ.get("EVERLOG_JLOG_SOURCE")
    if not source:
        raise Missing("EVERLOG_JLOG_SOURCE names no source of JLog 2.6")
    return Library(Path(source), tuple(shlex.split(os.environ.get("EVERLOG_JLOG_FLAGS", ""))))


def _download(archive: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    # Its setup.py is run for the metadata: by the setuptools that are here, nothing is built.
    pip += ["--no-binary", ":all:", "--no-build-isolation", "--timeout", "10", "--retries", "1"]
    pip += ["--dest", str(archive.parent), f"{PACKAGE}=={VERSION}"]
    ended = subprocess.run(pip, capture_output=True, text=True, check=False)
    if ended.returncode or not archive.exists():
        said = (ended.stderr.strip() or "nothing").splitlines()[-1]
        raise Missing(f"JLog's C library ({PACKAGE} {VERSION}) could not be downloaded from PyPI; pip says: {said}")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        archive.unlink()
        raise Missing(f"{archive.name} from PyPI has SHA-256 {found}, expected {SHA256}")


@cache
def program(library: Library) -> str:
    """The built program; built once for each content of ``jlog_peer.c``. Raises :class:`Missing`."""
    if shutil.which("gcc") is None:
        raise Missing("JLog's C library needs gcc to be built")
    key = hashlib.sha256(PROGRAM.read_bytes() + repr(library).encode()).hexdigest()[:12]
    target = cache_folder() / f"jlog-peer-{key}"
    if not target.exists():
        draft = target.with_suffix(f".{os.getpid()}")
        sources = [str(library.source / name) for name in SOURCES if (library.source / name).exists()]
        # The warnings left out are about the library.
        command = ["gcc", "-O2", "-w", "-D_REENTRANT", f"-I{library.source}", "-o", str(draft), str(PROGRAM), *sources]
        built = subprocess.run([*command, "-lpthread", *library.flags], capture_output=True, text=True, check=False)
        if built.returncode:
            raise Missing(f"gcc could not build JLog's C library: {built.stderr.strip()[:300]}")
        draft.replace(target)
    return str(target)


def payload(writer: int, number: int, most: int) -> bytes:
    """What the peer's ``many`` writes, by its formula."""
    filler = number * 7919 % (most + 1)
    if number % 5 == 0:
        return b"%d:%d:" % (writer, number) + (EMPTY * (filler // 16 + 1))[:filler]
    return b"%d:%d:" % (writer, number) + bytes((number + j) & 255 for j in range(filler))


@dataclass(frozen=True)
class Read:
    """A message as the peer printed it."""

    address: str
    time_us: int
    payload: bytes


class PeerError(Exception):
    """The library's error: its name, and what was done before."""

    def __init__(self, name: str, done: int) -> None:
        super().__init__(f"{name} after {done}")
        self.name = name
        self.done = done


class Peer:
    """A process of the C library on a journal. ``messages`` are those that the last command printed."""

    def __init__(self, program: str, journal: Path, *, file_bytes: int | None = None, ignores_the_signal: bool = False):
        command = [program, str(journal)]
        if file_bytes is not None:  # writing beyond it fails, or kills the process
            trap = "trap '' XFSZ; " if ignores_the_signal else ""
            script = f'{trap}ulimit -c 0; exec prlimit --fsize={file_bytes} "$@"'
            command = ["bash", "-c", script, "peer", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.messages: list[Read] = []
        self._lines: deque[bytes] = deque()
        self._part = b""

    def tell(self, command: str) -> None:
        """A command, without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")

    def answer(self, seconds: float = SECONDS_TO_ANSWER) -> list[str] | None:
        """The words behind ``ok``; ``None`` when there is no answer in time. Raises :class:`PeerError`, and
        :class:`EOFError` when the process has ended."""
        end = time.monotonic() + seconds
        while True:
            if not self._lines:
                if not self._more(end):
                    return None
                continue
            words = self._lines.popleft().decode().split()
            if words[0] == "ok":
                return words[1:]
            if words[0] == "error":
                raise PeerError(words[1], int(words[2]))
            seconds_text, _, microseconds = words[1].partition(".")
            body = bytes.fromhex(words[2]) if len(words) > 2 else b""
            self.messages.append(Read(words[0], int(seconds_text) * 1_000_000 + int(microseconds), body))

    def _more(self, end: float) -> bool:
        stdout = self.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        data = os.read(stdout.fileno(), 1 << 20)
        if not data:
            raise EOFError(f"the peer ended with {self.process.wait()}")
        *lines, self._part = (self._part + data).split(b"\n")
        self._lines.extend(lines)
        return True

    def ask(self, command: str) -> list[str]:
        """A command and its answer. Raises as :meth:`answer` does, and :class:`TimeoutError`."""
        self.messages = []
        self.tell(command)
        words = self.answer()
        if words is None:
            raise TimeoutError(command)
        return words

    def read_all(self, subscriber: str, count: int, *, keep: bool = False) -> list[Read]:
        """``count`` messages from the subscriber's checkpoint on, which is set behind them; fewer where no more come
        for a while."""
        self.ask(f"reader {subscriber.encode().hex()}")
        self.ask(f"follow {count} 300{' keep' if keep else ''}")
        messages = self.messages
        self.ask("close")
        return messages

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Let it end by itself; then kill it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()


@contextlib.contextmanager
def peers(program: str) -> Iterator[type[Peer]]:
    """A maker of peers that all end with the block."""
    made: list[Peer] = []

    def make(journal: Path, **limits: object) -> Peer:
        made.append(Peer(program, journal, **limits))  # type: ignore[arg-type]
        return made[-1]

    try:
        yield make  # type: ignore[misc]
    finally:
        for peer in made:
            peer.end()


__all__ = ["Library", "Missing", "Peer", "PeerError", "Read", "from_environment", "from_pypi", "payload", "program"]
