"""A cluster whose workers get everlog as an archive: master, workers and executors are processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import everlog

HERE = Path(__file__).parent
KEY = "mykey"  # told in the golden stores' README

pytestmark = pytest.mark.long


def packed(folder: Path) -> Path:
    """What ``pip install --target`` puts into a folder, as an archive."""
    package = folder / "package"
    source = Path(everlog.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "*.pyx", "*.c")
    shutil.copytree(source, package / "everlog", ignore=ignored)
    shutil.copytree(source.parent / "pyspark_everlog", package / "pyspark_everlog", ignore=ignored)
    return Path(shutil.make_archive(str(folder / "everlog"), "gztar", package))


@pytest.mark.timeout(600)
def test_executors_without_everlog_run_queries_with_the_one_that_is_sent(golden, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    libraries = sysconfig.get_paths()["purelib"]  # without everlog, which is there by a .pth file only
    alone = subprocess.run(
        [python, "-c", "import everlog"], capture_output=True, text=True, env={"PYTHONPATH": libraries}, check=False
    )
    assert "No module named 'everlog'" in alone.stderr
    stores = [str(golden("aeron/archive-basic/archive")), str(golden("jlog/broken_base/log"))]
    (tmp_path / "events").mkdir()
    sealed = str(golden("nats_streaming/encrypted_AES"))
    arguments = [packed(tmp_path), python, libraries, tmp_path / "events", KEY, sealed, *stores]
    done = subprocess.run(
        [sys.executable, HERE / "cluster_job.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "EVERLOG_TEST_KEY": KEY, "SPARK_WORKER_DIR": str(tmp_path / "work")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert {Path(file).parts[-3] for file, _ in found["where"]} == {"everlog_package"}
    assert {module for _, module in found["where"]} == {"everlog.kernel._crc32"}  # compiled code is sent, too
    expected = {}
    for path in stores:
        with everlog.open_store(next(p for p in Path(path).rglob("*") if p.is_file()).parent) as store:
            lengths = [len(r.payload) for info in store.streams() for r in store.read(info.name)]
            expected[store.family] = (len(lengths), sum(lengths))
    assert found["rows"] == found["scanned"] == sum(rows for rows, _ in expected.values())
    assert found["bytes"] == sum(size for _, size in expected.values())
    assert found["folded"] == [[family, expected[family][0]] for family in sorted(expected)]
    assert found["sealed"] > 0
    told = done.stdout + done.stderr
    for folder in ("events", "work"):
        for path in (tmp_path / folder).rglob("*"):
            if path.is_file() and (folder == "events" or path.name in ("stdout", "stderr")):
                told += path.read_text(errors="replace")
    assert "EVERLOG_TEST_KEY" in told
    assert KEY not in told
