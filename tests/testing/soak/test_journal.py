"""A short run of the soak: processes killed at random moments. ``make soak-jlog`` is the long one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from everlog.jlog import Writer, create
from everlog.testing.soak import jlog as jlog_soak
from everlog.testing.soak.jlog import Soak, main, payload_of


def test_what_was_acknowledged_survives_processes_that_are_killed(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    result = Soak(str(tmp_path / "journal"), kills=12, seed=seed).run()
    assert result.complaints == [], f"seed {seed}"
    assert (result.kills, result.acknowledged > 300, result.segments > 3) == (12, True, True)
    assert result.given - result.given_again >= 3 * result.acknowledged


@pytest.mark.long
def test_the_soak_complains_of_what_it_is_to_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that acknowledges a message it does not write, and one that writes what nobody acknowledged."""

    def lie(journal: str, number: int, start: int, news: int) -> None:
        with Writer(journal) as writer:
            writer.append(payload_of((number, start, 0)))
            writer.append(payload_of((number, start, 2)))
            writer.append(payload_of((number, start, 1)))
            writer.append(payload_of((number, start, 2)))
            writer.append(payload_of((number, start, 99)))
            writer.append(b"no message")
        os.write(news, b"%d %d 5\n" % (number, start))
        os.kill(os.getpid(), 9)

    monkeypatch.setattr(jlog_soak, "write_messages", lie)
    complaints = "\n".join(Soak(str(tmp_path / "journal"), kills=0, seed=1).run().complaints)
    for words in ("did not get 9 messages", "in the wrong order", "that nobody wrote", "is at 0x"):
        assert words in complaints


@pytest.mark.long
def test_the_command_line_says_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "1", "--seed", "7", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 kills, ")
    assert list(tmp_path.iterdir()) == []


def test_it_needs_a_place_where_nothing_is(tmp_path: Path) -> None:
    create(tmp_path / "j")
    with pytest.raises(Exception, match="already exists"):
        Soak(str(tmp_path / "j"), kills=0, seed=1)
