"""The command as a process: closed pipes, start-up cost, what is imported, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everlog as package
from everlog import jlog
from everlog.testing.toy.store import toy_line

MAIN = "from everlog.cli import main\nmain()\n"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "s.toy").write_bytes(b"".join(toy_line(n, n, "t", b"x" * 100) for n in range(5000)))
    return folder


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )


def test_a_closed_pipe_ends_quietly(large: Path) -> None:
    script = f'"{sys.executable}" -c "$0" read "$1" --json | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script, MAIN, str(large)], capture_output=True, check=False, timeout=60)
    assert done.stderr == b""
    first, code = done.stdout.splitlines()
    assert first.startswith(b'{"stream": "s", "address": "0"')
    assert code == b"0"


def test_a_full_disk_is_one_line(large: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "read", str(large), "--json"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr == b"everlog: system: no space left on device\n"


def test_version_and_help() -> None:
    assert command("--version").stdout.decode() == f"everlog, version {package.__version__}\n"
    assert re.search(rb"verify +Check everything in a store and report every fault\.", command("--help").stdout)


def test_completion_scripts_are_there() -> None:
    done = command(env=os.environ | {"_EVERLOG_COMPLETE": "bash_source"})
    assert b"_everlog_completion" in done.stdout


def test_a_list_in_a_pipe_imports_neither_rich_nor_arrow(large: Path) -> None:
    script = (
        "import sys\nfrom everlog.cli.app import run\nrun(['ls', sys.argv[1]])\n"
        "print([m for m in ('rich', 'pyarrow', 'nanoarrow', 'numpy', 'pyspark', 'fsspec') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(large)], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("no_colour", "expected"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_and_not_with_no_color(large: Path, no_colour: str, expected: bool) -> None:
    assert b"\x1b[" not in command("verify", large).stdout
    host, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", MAIN, "verify", str(large)],
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"NO_COLOR": no_colour, "TERM": "xterm"},
        check=True,
    )
    os.close(terminal)
    try:
        output = os.read(host, 65536)
    finally:
        os.close(host)
    assert (b"\x1b[" in output) is expected


def test_a_table_on_a_terminal_is_drawn(large: Path) -> None:
    host, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", MAIN, "ls", str(large)],
        stdout=terminal,
        stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
        check=True,
    )
    os.close(terminal)
    output = os.read(host, 65536).decode()
    os.close(host)
    assert "─" in output
    assert "4999" in output


def redirected(redirections: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """A command with its streams as a shell makes them."""
    script = f'"{sys.executable}" -c "$@" {redirections}'
    return subprocess.run(
        ["bash", "-c", script, "bash", MAIN, *map(str, arguments)], capture_output=True, check=False, timeout=60
    )


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Good records and damaged lines by turns."""
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "s.toy").write_bytes(b"".join(toy_line(n, n, "t", b"x" * 100) + b"damaged\n" for n in range(20)))
    return folder


@pytest.mark.parametrize("redirections", ["2> >(exec true)", "2>/dev/full", "2>&-"])
def test_warnings_that_nobody_takes_end_no_reading(damaged: Path, redirections: str) -> None:
    done = redirected(redirections, "read", damaged, "--json")
    assert done.returncode == 1
    assert [json.loads(line)["address"] for line in done.stdout.splitlines()] == [str(n) for n in range(20)]


@pytest.mark.parametrize("redirections", ["2>/dev/full", "2>&-"])
def test_the_exit_code_is_the_same_where_the_reason_can_not_be_told(tmp_path: Path, redirections: str) -> None:
    done = redirected(redirections, "read", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_closed_stdout_is_an_error_of_one_line(large: Path) -> None:
    for command_line in (["ls", large], ["read", large, "--json"], ["verify", large], ["--version"]):
        done = redirected(">&-", *command_line)
        assert (done.returncode, done.stderr) == (2, b"everlog: system: bad file descriptor\n")


def test_a_closed_stdin_is_nobody_to_ask(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    jlog.create(journal)
    with jlog.Writer(journal) as writer:
        writer.append(b"one")
    (journal / "metastore").unlink()
    script = f'"{sys.executable}" -m everlog repair "$1" <&-'
    done = subprocess.run(["bash", "-c", script, "bash", str(journal)], capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr == b"everlog: nothing was changed; pass --yes to repair without a question\n"
