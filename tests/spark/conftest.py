"""One Spark session for the whole run, and stores for it: golden ones, and toy ones whose rows a test chooses."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from tests.spark import toy_source

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
ROOT = HERE.parents[1]

# A driver, and here are many short ones, starts in half the time where its JVM does not optimize what soon ends.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def fsspec_folder(tmp_path_factory):
    """Where fsspec in Spark's workers looks for its settings; a test may put a file there."""
    return tmp_path_factory.mktemp("fsspec")


@pytest.fixture(scope="session")
def spark(fsspec_folder):
    from everlog.spark.session import local_session

    # Spark's workers import toy_source, too, when they unpickle what the driver sends.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    os.environ["EVERLOG_TEST_KEY"] = "mykey"
    os.environ["FSSPEC_CONFIG_DIR"] = str(fsspec_folder)
    session = local_session("everlog tests")
    session.dataSource.register(toy_source.ToySource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """``golden("jlog/basic/log")`` unpacks that archive once and gives its folder."""
    root = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        return folder

    return unpack


@pytest.fixture(autouse=True)
def _toy_family(monkeypatch):
    """The toy family, for the tests of this folder only."""
    from everlog.stores import FAMILIES
    from everlog.testing.toy_store import ENTRY

    monkeypatch.setitem(FAMILIES, "toy", ENTRY)


@pytest.fixture
def toy(tmp_path):
    """``toy("name", {"stream": [(number, time, topic, payload), ...]})`` writes a toy store and gives its path."""
    from everlog.testing.toy_store import toy_line

    def write(name: str, streams: dict[str, list[tuple]]) -> str:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for stream, rows in streams.items():
            (folder / f"{stream}.toy").write_bytes(b"".join(toy_line(*row) for row in rows))
        return str(folder)

    return write
