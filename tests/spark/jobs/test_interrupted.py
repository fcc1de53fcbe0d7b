"""Ctrl-C while a verb of ``everlog spark`` runs: one line, exit code 130, and the next run does the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from everlog import jlog
from everlog.cli.app import run
from everlog.pipelines.export.folder import MANIFEST
from tests.spark.exported import numbers, once

PATIENCE_S = 240


@pytest.mark.long
def test_an_export_that_is_interrupted_says_so_in_one_line_and_goes_on(spark, tmp_path):
    path, out = tmp_path / "journal", tmp_path / "out"
    jlog.create(path, segment_bytes=1 << 20)
    with jlog.Writer(path) as writer:
        writer.append_many([b"%d" % number + b"x" * 4000 for number in range(10_000)])
    command = ["spark", "export", str(path), str(out), "--commit-bytes", "1m"]
    process = subprocess.Popen(
        [sys.executable, "-m", "everlog", *command, "--master", "local[1]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while not (out / MANIFEST).exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    expected = "everlog: interrupted: committed work is kept; run the command again to continue\n"
    assert (process.returncode, *said) == (130, "", expected)
    assert run([*command[:-1], "1g"]) == 0
    assert numbers(out) == once(10_000)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_verbs_that_change_nothing_say_that(spark, tmp_path, capsys, monkeypatch, error):
    from everlog.spark.jobs import verify

    def broken_off(*arguments):
        raise error

    monkeypatch.setattr(verify, "verify_stores", broken_off)
    jlog.create(tmp_path / "journal")
    before = signal.getsignal(signal.SIGINT)
    if error is KeyboardInterrupt:
        assert run(["spark", "verify", str(tmp_path)]) == 130
        assert capsys.readouterr().err == "everlog: interrupted: nothing was changed\n"
    else:
        with pytest.raises(SystemExit):
            run(["spark", "verify", str(tmp_path)])
        assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGINT) is before
