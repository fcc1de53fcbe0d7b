"""Small files of every family cut at every byte, and fuzzing that is guided by what of the code runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tests
from everlog.testing.fuzz.guided import SURFACES, base_of, exercise, with_input
from everlog.testing.series import Series

GOLDEN = tests.GOLDEN
MOST_CUTS = 1300
SMALL = sorted(name for name in SURFACES if not name.endswith(("segment", "compressed")))


def used_length(data: bytes) -> int:
    return len(data.rstrip(b"\0"))


@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_cut_at_any_byte_is_read_or_refused(name: str, series: Series) -> None:
    surface = SURFACES[name]
    files = base_of(surface, GOLDEN)
    whole = files[surface.file]
    used = used_length(whole)
    assert 0 < used <= MOST_CUTS
    for cut in series.points(range(used + 1)):
        exercise({**files, surface.file: whole[:cut]}, surface.family)


@pytest.mark.parametrize("name", sorted(SURFACES))
def test_the_intact_file_is_what_fuzzing_begins_with(name: str) -> None:
    surface = SURFACES[name]
    files = base_of(surface, GOLDEN)
    data = files[surface.file]
    assert with_input(files, surface.file, b"\0" + data[:100]) == files
    assert with_input(files, surface.file, b"\1" + data[:100])[surface.file] == data[:100]
    exercise(files, surface.family)


@pytest.mark.long
@pytest.mark.parametrize("name", ["jlog-segment", "nats-slice", "aeron-segment", "aeron-loss-report"])
def test_a_guided_fuzzer_finds_nothing_in_a_moment(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris has no wheel for this machine")
    command = [sys.executable, "-m", "everlog.testing.fuzz.guided", str(GOLDEN), name, "--seconds", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert runs is not None
    assert int(runs[1]) > 20


@pytest.mark.long
def test_a_guided_fuzzer_stops_at_what_a_parser_lets_through(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris has no wheel for this machine")
    planted = (
        "import everlog.testing.fuzz.guided as fuzz\n"
        "real = fuzz.exercise\n"
        "def broken(files, family):\n"
        "    if len(files['metastore']) == 3: raise ValueError('planted')\n"
        "    real(files, family)\n"
        "fuzz.exercise = broken\n"
        f"fuzz.main([{str(GOLDEN)!r}, 'jlog-metastore', '--seconds', '60'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", planted],
        cwd=tmp_path,
        env={"EVERLOG_PURE_PYTHON": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "planted" in done.stderr + done.stdout
    assert list(tmp_path.glob("crash-*"))
