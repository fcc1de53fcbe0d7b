"""What the README and the Python page let people paste, works: run on golden stores named as there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

import tests
from everlog.cli.app import run

ROOT = tests.ROOT
STORES = {
    "archive": "aeron/archive-basic/archive.tar.gz",
    "node0": "aeron/cluster-3node/node0.tar.gz",
    "node1": "aeron/cluster-3node/node1.tar.gz",
    "journal": "jlog/basic/log.tar.gz",
    "store": "nats_streaming/basic_sigterm.tar.gz",
    "path/to/store": "aeron/archive-basic/archive.tar.gz",
}


LIVE = "everlog run archive"
"""What is in blocks that need a running archive; the test of the page on recording runs such commands."""


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    return [str(block) for block in found]


def commands() -> list[str]:
    lines = [line for block in blocks("README.md", "console") if LIVE not in block for line in block.splitlines()]
    found = [line[2:].split(" #")[0].strip() for line in lines if line.startswith("$ everlog") and "/var/" not in line]
    return [line for line in found if not line.endswith("&")]


ENDS = {"jlogtail": "--no-follow", "metrics": "--once"}
"""Commands that run until they are stopped, and the option with which they end."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in STORES.items():
        place = tmp_path / "unpacked" / name.replace("/", "-")
        with tarfile.open(ROOT / "tests" / "golden" / source) as tar:
            tar.extractall(place, filter="data")
        (inner,) = place.iterdir()
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        inner.rename(tmp_path / name)
    (tmp_path / "key.txt").write_text("mykey\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_readme_run(command: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [part for part in shlex.split(command)[1:] if part != "--follow"]
    arguments += [option for name, option in ENDS.items() if name in arguments]
    shutil.copytree(folder / "journal", folder / "orders")
    code = run(arguments)
    captured = capfd.readouterr()
    assert code in (0, 1), captured.err
    # The plain archive of the golden stores has no checksums: told that it has, verify and read find faults.
    assert code == 0 or "--checksum" in command


def test_what_one_shell_command_publishes_the_other_prints(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("README.md", "console") if "everlog aeron pub" in block and LIVE not in block]
    script = re.sub(r"^\$ ", "", block, flags=re.MULTILINE).replace("seq 1000000", "seq 50000")
    # So that the subscriber ends, and its output can be looked at.
    script = script.replace("everlog aeron sub", "everlog aeron sub --until-end >printed")
    (tmp_path / "everlog").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m everlog "$@"\n')
    (tmp_path / "everlog").chmod(0o755)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as parent:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "AERON_DIR": f"{parent}/driver"}
        ends = "code=$?; [ $code = 0 ] && wait %2 || kill %2; kill %1; wait %1; exit $code"
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ends}"],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert "50000 messages published" in done.stderr
    assert "50000 messages printed" in done.stderr
    assert (tmp_path / "printed").read_text().splitlines() == [str(number) for number in range(1, 50001)]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/jlog.md", "docs/archive.md"])
def test_python_examples_run(page: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    examples = [block for block in blocks(page, "python") if "spark." not in block and "toy" not in block]
    assert examples
    context: dict[str, object] = {}
    for example in examples:
        if "import everlog" not in example and "from everlog" not in example and "store." in example:
            example = "store = everlog.open_store('path/to/store')\n" + example
        exec(compile(example, page, "exec"), context)
    assert capfd.readouterr().out
