"""The real systems as peers on the same files: JLog's C library, Aeron's archive. Where one can't be had, tests are
skipped with the reason."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import aeron_java

from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.testing.made.server import Missing, NatsServer, find_server
from tests.interop.archive import java_archive
from tests.interop.jlog import c_library
from tests.interop.transport import java_transport

pytest.register_assert_rewrite("tests.interop.archive.both_archives")


def _library(version: str) -> c_library.Library:
    try:
        with aeron_java.alone():
            found = c_library.from_pypi() if version == "2.0" else c_library.from_environment()
            c_library.program(found)
    except c_library.Missing as missing:
        pytest.skip(str(missing))
    return found


@pytest.fixture(scope="session", params=["2.0", "source"] if "EVERLOG_JLOG_SOURCE" in os.environ else ["2.0"])
def library(request: pytest.FixtureRequest) -> c_library.Library:
    """The version from PyPI, and the one that the environment names."""
    return _library(request.param)


@pytest.fixture(scope="session")
def library_with_buffer() -> c_library.Library:
    """JLog 2.6, if the environment names one."""
    found = _library("source")
    if not found.has_buffer:
        pytest.skip("EVERLOG_JLOG_SOURCE is a version without a pre-commit buffer")
    return found


@pytest.fixture
def start(library: c_library.Library) -> Iterator[Callable[..., c_library.Peer]]:
    """Starts the peer on a journal, as often as wanted; all end with the test."""
    with c_library.peers(c_library.program(library)) as make:
        yield make


@pytest.fixture
def start_2_6(library_with_buffer: c_library.Library) -> Iterator[Callable[..., c_library.Peer]]:
    """The same, of JLog 2.6."""
    with c_library.peers(c_library.program(library_with_buffer)) as make:
        yield make


@pytest.fixture(scope="session")
def _nats_server_program() -> None:
    try:
        find_server()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def start_server(tmp_path: Path, _nats_server_program: None) -> Iterator[Callable[..., NatsServer]]:
    """Starts a real nats-server with JetStream, ``start_server("-c", "file")``; it ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(NatsServer(tmp_path / "jetstream", *arguments))


@pytest.fixture
def server(start_server: Callable[..., NatsServer]) -> NatsServer:
    """One as it comes."""
    return start_server()


@pytest.fixture(scope="session")
def aeron_jar() -> Path:
    """The jar with the real Aeron, for its tools."""
    try:
        return java_archive.prepare(download=aeron_java.may_download())
    except java_archive.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def start_archive(aeron_jar: Path) -> Iterator[Callable[..., java_archive.JavaArchive]]:
    """Starts the real archive on a folder, ``start_archive(folder, ArchiveOptions(...))``, as often as wanted; all end
    with the test."""
    started: list[java_archive.JavaArchive] = []

    def start(folder: Path, options: java_archive.ArchiveOptions | None = None) -> java_archive.JavaArchive:
        started.append(java_archive.JavaArchive(aeron_jar, folder, options or java_archive.ArchiveOptions()))
        return started[-1]

    yield start
    for archive in started:
        archive.kill()


@pytest.fixture
def driver_folder() -> Iterator[Path]:
    """A name for a driver's folder in shared memory, where there is such memory; what is there goes with the test."""
    memory = Path("/dev/shm")
    parent = Path(tempfile.mkdtemp(prefix="everlog-driver-", dir=memory if memory.is_dir() else None))
    yield parent / "driver"
    shutil.rmtree(parent, ignore_errors=True)


@pytest.fixture
def start_java_driver(aeron_jar: Path, driver_folder: Path) -> Iterator[Callable[..., java_transport.JavaDriver]]:
    """Starts the real media driver with these properties, as often as wanted, each on a folder of its own unless one is
    named; all end with the test."""
    started: list[java_transport.JavaDriver] = []

    def start(properties: dict[str, str] | None = None, folder: Path | None = None) -> java_transport.JavaDriver:
        place = folder or driver_folder.with_name(f"java-{len(started)}")
        started.append(java_transport.JavaDriver(aeron_jar, place, properties))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


@pytest.fixture
def start_java_client(aeron_jar: Path) -> Iterator[Callable[..., java_transport.JavaClient]]:
    """Starts a client of the real Aeron on a driver's folder, as often as wanted; all end with the test."""
    started: list[java_transport.JavaClient] = []

    def start(folder: Path | str, **options: object) -> java_transport.JavaClient:
        started.append(java_transport.JavaClient(aeron_jar, folder, **options))
        return started[-1]

    yield start
    for client in started:
        client.kill()


@pytest.fixture
def start_our_driver(driver_folder: Path) -> Iterator[Callable[..., MediaDriver]]:
    """Starts our driver as a child process, with these fields of its configuration, as often as wanted; all end with
    the test."""
    started: list[MediaDriver] = []

    def start(folder: Path | None = None, **settings: Any) -> MediaDriver:
        place = folder or driver_folder.with_name(f"ours-{len(started)}")
        lengths = {"publication_term_buffer_length": 64 << 10, "ipc_term_buffer_length": 64 << 10}
        started.append(MediaDriver.launch(dir=str(place), **(lengths | settings)))
        return started[-1]

    yield start
    for driver in started:
        driver.close()
