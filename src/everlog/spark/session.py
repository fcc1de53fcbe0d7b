"""A local Spark session with settings that suit everlog, for the demo, the tests, the benchmarks and first
experiments."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from everlog.core.files.writable import write_failed
from everlog.errors import MissingDependency, UsageError
from everlog.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW_FLAGS = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
"""Spark's JVM reads Arrow columns value by value; without these flags it repeats bounds and null checks for each."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Between the JVM and its Python workers, a Unix socket costs half as much as TCP on loopback, and opens no port."""
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

_LOG4J = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n
"""


def local_session(
    name: str = "everlog",
    *,
    cores: int | str = 2,
    memory: str = "1g",
    log_level: str = "ERROR",
    log_file: Path | None = None,
) -> SparkSession:
    """A session on ``cores`` cores of this machine (``"*"``: all), not reachable from outside, without the web UI; see
    :func:`session_on`."""
    settings = {"spark.driver.memory": memory}
    return session_on(f"local[{cores}]", name, settings=settings, log_level=log_level, log_file=log_file)


def session_on(
    master: str,
    name: str = "everlog",
    *,
    settings: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    log_file: Path | None = None,
) -> SparkSession:
    """A session on a master such as ``local[4]`` or ``spark://host:7077``. ``settings`` are Spark's and override the
    ones made here.

    Finds Java by itself, and lets Spark's workers run the current Python. What the JVM and the workers write to stderr,
    including warnings about damaged stores, goes to ``log_file`` if it is given. Raises :class:`MissingDependency`
    without pyspark or Java. A session that already runs in this process is returned unchanged.
    """
    active = active_session()
    if active is not None:
        return active
    from pyspark.sql import SparkSession

    is_local = master.startswith("local")
    prepare_environment(find_java(), is_local=is_local)
    scratch = tempfile.mkdtemp(prefix="everlog-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    logging_file = os.path.join(scratch, "log4j2.properties")
    with open(logging_file, "w", encoding="ascii") as file:
        file.write(_LOG4J.format(level=log_level.lower()))
    chosen = {
        **_SETTINGS,
        **(_LOCAL if is_local else {}),
        "spark.driver.extraJavaOptions": " ".join((*ARROW_FLAGS, f"-Dlog4j2.configurationFile={logging_file}")),
        "spark.executor.extraJavaOptions": " ".join(ARROW_FLAGS),
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        **(settings or {}),
    }
    builder = SparkSession.builder.master(master).appName(name).config(map=chosen)
    with _stderr_to(log_file):
        session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def active_session() -> SparkSession | None:
    """The session that runs in this process, or ``None``. Raises :class:`MissingDependency` without pyspark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        message, hint = "Spark pipelines need pyspark", "pip install 'everlog[spark]'"
        raise MissingDependency("Spark", found="pyspark not installed", message=message, hint=hint) from error
    found: SparkSession | None = SparkSession.getActiveSession()
    return found


def prepare_environment(java: Java, *, is_local: bool = True) -> None:
    """Set the environment variables of Spark's launcher and its workers. Call it before a process's first session."""
    if java.found_by != "PATH":
        os.environ["JAVA_HOME"] = java.home
    elif "JAVA_HOME" in os.environ:
        del os.environ["JAVA_HOME"]  # it is unusable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _log_descriptor(path: Path) -> int:
    """Open a file, a device such as ``/dev/null``, or a FIFO that has a reader; never blocks."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    except OSError as error:
        raise write_failed(str(path), error) from error
    except ValueError as error:  # the path contains a NUL
        raise UsageError(ascii(str(path)), found=str(error), expected="a file's path") from error
    os.set_blocking(file, True)
    return file


@contextmanager
def _stderr_to(path: Path | None) -> Iterator[None]:
    """Redirect file descriptor 2 of this process to ``path`` during the block; processes started in it keep it."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    file = _log_descriptor(path)
    held = os.dup(2)
    try:
        os.dup2(file, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(held, 2)
        os.close(held)
        os.close(file)
