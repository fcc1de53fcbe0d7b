"""JLog's C library, timed by a program of ours (``jlog_peer.c``).

The source of JLog 2.0 comes from the source package ``jlog`` 1.0.2 on PyPI, which ``pip`` downloads once to
``~/.cache/everlog-bench``; gcc builds it there. It has neither a pre-commit buffer nor bulk reads. JLog 2.6 has:
``EVERLOG_JLOG_SOURCE`` names the folder of its source, configured (it has a ``jlog_config.h``), and
``EVERLOG_JLOG_FLAGS`` its own flags for gcc.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

PACKAGE, VERSION = "jlog", "1.0.2"
SHA256 = "46251e6bb0d27ccbb5c70011ba4bb903c8ada532f94667d19fdec5c0b864766a"
LIBRARY = ("jlog.c", "jlog_io.c", "jlog_hash.c", "jlog_compress.c")
HARNESS = Path(__file__).with_name("jlog_peer.c")


def cache_folder() -> Path:
    """Where downloads and builds stay between runs; never in the project."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "everlog-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _source() -> Path:
    """The folder with the C source, downloaded and unpacked where it is not there. Raises SystemExit."""
    archive = cache_folder() / f"{PACKAGE}-{VERSION}.tar.gz"
    if not archive.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        # Its setup.py is run for the metadata: by the setuptools that are here, nothing is built.
        pip += ["--no-build-isolation", "--dest", str(cache_folder()), f"{PACKAGE}=={VERSION}"]
        if subprocess.run(pip, check=False).returncode or not archive.exists():
            raise SystemExit(f"the peer, {PACKAGE} {VERSION}, could not be downloaded from PyPI")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{archive}: SHA-256 {found}, expected {SHA256}; delete it and try again")
    folder = cache_folder() / f"{PACKAGE}-{VERSION}"
    if not folder.exists():
        with tarfile.open(archive) as file:
            file.extractall(cache_folder(), filter="data")
    return folder / "jlog"


def has_2_6() -> bool:
    """Whether the environment names the source of JLog 2.6."""
    return "EVERLOG_JLOG_SOURCE" in os.environ


@cache
def program(*, is_2_6: bool = False) -> str:
    """The built program's path; built once for each content of ``jlog_peer.c``. Raises SystemExit."""
    if shutil.which("gcc") is None:
        raise SystemExit("the peer, JLog's C library, needs gcc (Debian: apt install gcc)")
    named = os.environ["EVERLOG_JLOG_SOURCE"] if is_2_6 else ""
    more = ["-DEVERLOG_HAS_BULK", *shlex.split(os.environ.get("EVERLOG_JLOG_FLAGS", ""))] if is_2_6 else []
    key = hashlib.sha256(HARNESS.read_bytes() + repr((named, more)).encode()).hexdigest()[:12]
    target = cache_folder() / f"jlog-peer-{key}"
    if not target.exists():
        source = Path(named) if is_2_6 else _source()
        draft = target.with_suffix(f".{os.getpid()}")
        # The warnings left out are about the library.
        command = ["gcc", "-O2", "-w", "-D_REENTRANT", f"-I{source}", "-o", str(draft), str(HARNESS)]
        command += [str(source / name) for name in LIBRARY if (source / name).exists()]
        subprocess.run([*command, "-lpthread", *more], check=True)
        draft.replace(target)
    return str(target)


def _run(*arguments: object, is_2_6: bool = False) -> str:
    command = [program(is_2_6=is_2_6), *(str(argument) for argument in arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def create(journal: Path, segment_bytes: int, *subscribers: str) -> Path:
    """A journal made by the C library, with subscribers at its beginning."""
    _run("create", journal, segment_bytes, *subscribers)
    return journal


def append(journal: Path, payload_bytes: int, messages: int, processes: int = 1) -> float:
    """Messages per second of ``processes`` together, each of which appends ``messages``, one by one."""
    count, took = _run("append", journal, payload_bytes, messages, processes).split()
    return int(count) / float(took)


def make_index(journal: Path, subscriber: str) -> None:
    """What the first reader does, so that the next one finds it done."""
    _run("index", journal, subscriber)


def read(journal: Path, subscriber: str, expected: int, checkpoint_every: int = 0) -> float:
    """Messages per second, one by one, from the subscriber's checkpoint to the segment's end."""
    count, took = _run("read", journal, subscriber, checkpoint_every).split()
    if int(count) != expected:
        raise SystemExit(f"the C library read {count} of {expected} messages")
    return expected / float(took)


def append_buffered(journal: Path, payload_bytes: int, messages: int, buffer_bytes: int) -> float:
    """Messages per second of JLog 2.6 through its buffer, with the flush at the end."""
    count, took = _run("buffered", journal, payload_bytes, messages, buffer_bytes, is_2_6=True).split()
    return int(count) / float(took)


def read_in_bulk(journal: Path, subscriber: str, expected: int) -> float:
    """Messages per second of JLog 2.6 in bulk. It hands out pointers into the mapped file and touches no payload."""
    count, took = _run("bulk", journal, subscriber, is_2_6=True).split()
    if int(count) != expected:
        raise SystemExit(f"the C library read {count} of {expected} messages")
    return expected / float(took)


def walk(segment: Path, expected: int) -> float:
    """Messages per second of a loop in C from header to header, which touches each page of a mapped segment."""
    count, took = _run("walk", segment).split()
    if int(count) != expected:
        raise SystemExit(f"a walk found {count} of {expected} messages")
    return expected / float(took)
