"""Java programs of ours around the real Aeron: finds a Java, gets the jar, compiles, builds the command line.

The jar is ``io.aeron:aeron-all`` of Maven Central, which is fetched once to ``~/.cache/everlog-interop``, by Maven
where there is one, and held against the SHA-256 below before each use.
``EVERLOG_AERON_JAR`` names another one, such as a later release. Nothing of it is part of the project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from everlog.errors import MissingDependency
from everlog.spark.java import find_java

ARTIFACT, VERSION = "io.aeron:aeron-all", "1.51.0"
OLD_VERSION = "1.44.1"
"""A release whose clients and archives speak schema version 9."""
SHA256 = {
    VERSION: "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458",
    OLD_VERSION: "3bcd1b5a9ec5ea6461de67b5ce7ce97c57c5129bef3158cbe0fac0b7bfb716ad",
}
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
OPENS = ("java.base/jdk.internal.misc", "java.base/sun.nio.ch", "java.base/java.util.zip")
"""Packages of the JDK that Agrona reaches into."""
CENTRAL = "https://repo1.maven.org/maven2"
CENTRAL_SECONDS = 60
MAX_JAR_BYTES = 64 << 20
MAVEN_SECONDS = 300
COMPILE_SECONDS = 120


def may_download() -> bool:
    """Whether peers that are not here are fetched: ``EVERLOG_INTEROP`` is ``download``."""
    return os.environ.get("EVERLOG_INTEROP") == "download"


class Missing(Exception):
    """Java or the jar can't be had here; the text says why."""


def cache_folder() -> Path:
    """Where the jar and the compiled programs stay between runs; never in the project."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "everlog-interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """One process at a time downloads and builds what others then find."""
    with open(cache_folder() / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def java() -> str:
    """A Java of version 17 or later, which Aeron needs. Raises :class:`Missing`."""
    try:
        return str(Path(find_java().home) / "bin" / "java")
    except MissingDependency as missing:
        raise Missing(f"Aeron needs Java: {missing}") from missing


@cache
def jar(*, download: bool, version: str = VERSION) -> Path:
    """The jar; fetched when it is not there and ``download`` allows it. ``EVERLOG_AERON_JAR`` stands for the newest
    version. Raises :class:`Missing`."""
    named = os.environ.get("EVERLOG_AERON_JAR")
    if named and version == VERSION:
        if not Path(named).is_file():
            raise Missing(f"EVERLOG_AERON_JAR names {named}, which is no file")
        return Path(named)
    path = cache_folder() / f"aeron-all-{version}.jar"
    with alone():
        if not path.exists():
            if not download:
                raise Missing("the Aeron jar was not downloaded yet: make interop does")
            _download(path, version)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256[version]:
        path.unlink()
        raise Missing(f"{path.name} has SHA-256 {found}, expected {SHA256[version]}; it was removed, try again")
    return path


def _download(path: Path, version: str) -> None:
    """By Maven, which knows the mirror that a company may have, or from Maven Central itself."""
    if shutil.which("mvn") is None:
        _download_from_central(path, version)
        return
    # -C fails when the file is not what the repository's own checksum says.
    command = ["mvn", "-B", "-q", "-C", COPY, f"-Dartifact={ARTIFACT}:{version}", f"-DoutputDirectory={path.parent}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAVEN_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise Missing(f"Maven did not fetch {ARTIFACT} {version} within {MAVEN_SECONDS} s") from late
    if ended.returncode or not path.exists():
        said = next((line for line in (ended.stdout + ended.stderr).splitlines() if "ERROR" in line), "nothing")
        raise Missing(f"{ARTIFACT} {version} could not be fetched from Maven Central; Maven says: {said[:300]}")


def _download_from_central(path: Path, version: str) -> None:
    group, name = ARTIFACT.split(":")
    url = f"{CENTRAL}/{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"
    try:
        with urllib.request.urlopen(url, timeout=CENTRAL_SECONDS) as answer:
            data = answer.read(MAX_JAR_BYTES)
    except OSError as error:
        raise Missing(f"there is no mvn, and {url} could not be fetched: {error}") from error
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(data)  # which is held against the SHA-256 before it is used
    draft.replace(path)


@cache
def classes(source: Path, jar_path: Path) -> Path:
    """The folder with the compiled classes of a program: a file, or a folder of files; compiled once for each content
    and jar. Raises :class:`Missing`."""
    content = b"".join(path.read_bytes() for path in _sources(source))
    key = hashlib.sha256(content + str(jar_path).encode() + java().encode()).hexdigest()[:12]
    target = cache_folder() / f"{source.stem}-{key}"
    with alone():
        if not target.exists():
            _compile(source, jar_path, target)
    return target


def _sources(source: Path) -> list[Path]:
    return sorted(source.glob("*.java")) if source.is_dir() else [source]


def _compile(source: Path, jar_path: Path, target: Path) -> None:
    draft = target.with_suffix(f".{os.getpid()}")
    compiler = [java(), "--module", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-Xlint:-options"]
    command = [*compiler, "-cp", str(jar_path), "-d", str(draft), *map(str, _sources(source))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS)
    if ended.returncode:
        raise Missing(f"{source.name} could not be compiled with {jar_path.name}: {(ended.stderr)[:600]}")
    draft.replace(target)


def command(
    jar_path: Path, main: str, *arguments: object, source: Path | None = None, flags: tuple[str, ...] = ()
) -> list[str]:
    """The command line of a class of the jar, or of a program of ours in ``source``, a file or a folder of files."""
    path = str(jar_path) if source is None else f"{jar_path}{os.pathsep}{classes(source, jar_path)}"
    opens = [part for package in OPENS for part in ("--add-opens", f"{package}=ALL-UNNAMED")]
    return [java(), *opens, *flags, "-cp", path, main, *(str(argument) for argument in arguments)]
