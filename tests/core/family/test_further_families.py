"""Families that an environment variable names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from everlog.testing.toy.store import toy_line

MAIN = "from everlog.cli import main\nmain()\n"


def command(*arguments: object, families: str | None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "EVERLOG_FAMILIES"}
    if families is not None:
        environ["EVERLOG_FAMILIES"] = families
    given = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(given, env=environ, capture_output=True, check=False, text=True, timeout=60)


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    (tmp_path / "a.toy").write_bytes(b"".join(toy_line(n, n, "t", b"%d" % n) for n in (1, 2, 5)))
    return tmp_path


def test_a_named_family_is_one_like_the_others(toys: Path) -> None:
    families = "everlog.testing.toy.family.TOY"
    rows = command("read", toys, "--json", "--first-number", "2", families=families)
    assert [json.loads(line)["number"] for line in rows.stdout.splitlines()] == [2, 5]
    assert "ok" in command("verify", toys, families=families).stdout
    assert command("read", toys, "--pre-commit", families=families).stderr == (
        "everlog: --pre-commit does not apply to toy stores\n"
    )
    metrics = command("metrics", toys, "--once", families=families).stdout
    assert f'everlog_toy_records{{path="{toys}",stream="a"}} 3.0' in metrics


def test_without_its_name_the_family_is_unknown(toys: Path) -> None:
    done = command("ls", toys, families=None)
    assert (done.returncode, "no store here" in done.stderr, "toy" in done.stderr.split("files of")[1]) == (
        2,
        True,
        False,
    )


@pytest.mark.parametrize("families", ["nosuch.module.TOY", "TOY", "os.path.NONE", "everlog.testing.toy.store.SUFFIX"])
def test_a_name_of_no_record_is_refused(toys: Path, families: str) -> None:
    done = command("ls", toys, families=families)
    assert done.returncode != 0
    assert "EVERLOG_FAMILIES must be" in done.stderr
    assert repr(families) in done.stderr
