"""One Spark session for the whole run, and stores for it."""

from __future__ import annotations

import os

import pytest

from tests import ROOT

# A driver, and here are many short ones, starts in half the time where its JVM does not optimize what soon ends.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def fsspec_folder(tmp_path_factory):
    """Where fsspec in Spark's workers looks for its settings; a test may put a file there."""
    return tmp_path_factory.mktemp("fsspec")


@pytest.fixture(scope="session")
def spark(fsspec_folder):
    from everlog.spark.session import local_session

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    os.environ["EVERLOG_TEST_KEY"] = "mykey"
    os.environ["FSSPEC_CONFIG_DIR"] = str(fsspec_folder)
    session = local_session("everlog tests")
    yield session
    session.stop()
