"""What a user without the right to read sees: one clear line and exit code 2, for a folder and for a file in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests

GOLDEN = tests.GOLDEN
NOBODY = 65534
STORES = {
    "aeron": ("aeron/archive-crash/crash-plain-recovered.tar.gz", "archive.catalog"),
    "jlog": ("jlog/basic/log.tar.gz", "00000000"),
    "nats": ("nats_streaming/basic_sigterm.tar.gz", "foo/msgs.1.dat"),
}
# Everything is imported before the process gives its rights up: the package may lie where nobody else may read.
CHILD = """
import os, sys, json
import everlog.cli.app, everlog.cli.verify, everlog.cli.read, everlog.cli.listing
import everlog.aeron.archive.store, everlog.jlog.store, everlog.nats_streaming.store
everlog.cli.app.run(["ls", sys.argv[2], "--json"])
os.chmod(sys.argv[3], 0)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
sys.stdout.write("--\\n")
sys.stdout.flush()
sys.exit(everlog.cli.app.run([*sys.argv[4:], sys.argv[2], "--json"]))
"""


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest) -> Iterator[tuple[Path, Path]]:
    name, inner = STORES[request.param]
    root = Path(tempfile.mkdtemp(prefix="everlog-test-"))
    root.chmod(0o755)
    with tarfile.open(GOLDEN / name) as tar:
        tar.extractall(root, filter="data")
    folder = next(path for path in root.iterdir() if path.is_dir())
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder, folder / inner
    for path in (folder, folder / inner):
        path.chmod(0o755)
    shutil.rmtree(root)


def denied(folder: Path, locked: Path, *command: str) -> tuple[int, str, list[str]]:
    """Run a command without the right to read ``locked``: exit code, what it printed, its lines of errors."""
    arguments = [sys.executable, "-c", CHILD, str(NOBODY), str(folder), str(locked), *command]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd="/", env=dict(os.environ))
    assert "--\n" in done.stdout, done.stderr
    return done.returncode, done.stdout.split("--\n", 1)[1], done.stderr.splitlines()


@pytest.mark.parametrize("command", ["ls", "info", "read", "verify"])
def test_a_folder_that_may_not_be_read_is_one_line(store: tuple[Path, Path], command: str) -> None:
    folder, _ = store
    code, printed, errors = denied(folder, folder, command)
    assert (code, printed) == (2, "")
    assert len(errors) == 1
    assert "permission denied" in errors[0]


@pytest.mark.parametrize("command", ["read", "verify"])
def test_a_file_that_may_not_be_read_is_told_and_no_traceback(store: tuple[Path, Path], command: str) -> None:
    folder, locked = store
    code, printed, errors = denied(folder, locked, command)
    assert code in (1, 2)
    assert "permission denied" in printed + "\n".join(errors)
    assert not any("Traceback" in line or "internal error" in line for line in errors)
