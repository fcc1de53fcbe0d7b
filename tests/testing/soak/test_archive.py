"""A short run of the soak: recorders killed at random moments. ``make soak-archive`` is the long one."""

from __future__ import annotations

import os
import random
import selectors
from pathlib import Path

import pytest

from everlog.aeron.archive.recording.options import DurabilityName
from everlog.testing.soak import archive as archive_soak
from everlog.testing.soak.archive import (
    ACKNOWLEDGED,
    CHANNEL,
    STARTED,
    STREAM_ID,
    Result,
    Soak,
    Watched,
    main,
    payload_of,
)


@pytest.mark.long
def test_what_was_acknowledged_survives_recorders_that_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_soak, "MAX_PAUSE_S", 0.4)  # few kills, so that each finds something
    seed = random.randrange(1 << 32)
    result = Soak(str(tmp_path), kills=5, seed=seed).run()
    assert result.complaints == [], f"seed {seed}"
    assert (result.kills, result.acknowledged > 20, result.recordings >= 2) == (5, True, True)
    assert result.byte_count > 32 * result.acknowledged


@pytest.mark.long
def test_the_soak_complains_of_what_it_is_to_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that is told of messages that are not there, and records what nobody knows of."""

    def lie(folder: str, durability: str, start: int, news: int) -> None:
        archive = archive_soak.open_to_record(folder, durability)
        recorder = archive.start_recording(CHANNEL, STREAM_ID)
        for number in (0, 1, 3, 2, 99):
            recorder.append(payload_of((0, start, number)))
        recorder.append(b"no message")
        os.write(news, b"%d 0\n%d 0\n%d 7\n" % (STARTED, STARTED, STARTED))
        os.write(news, b"%d 0 %d 5 1000000\n" % (ACKNOWLEDGED, start))
        os.write(news, b"%d 7 %d 5 64\n" % (ACKNOWLEDGED, start))
        os.kill(os.getpid(), 9)

    monkeypatch.setattr(archive_soak, "record_messages", lie)
    monkeypatch.setattr(archive_soak, "MAX_PAUSE_S", 2)
    complaints = "\n".join(Soak(str(tmp_path), kills=0, seed=1).run().complaints)
    for words in (
        "id 0 was given twice",
        "recording 7 is lost",
        "before 1000000",
        "does not follow",
        "was not recorded yet",
        "that nobody recorded",
    ):
        assert words in complaints


def test_a_worker_may_be_killed_before_it_reports_its_new_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start dies without a word about recording 0; the second one extends it."""

    def work(folder: str, durability: DurabilityName, start: int, news: int) -> None:
        archive = archive_soak.open_to_record(folder, durability)
        if start == 0:
            archive.start_recording(CHANNEL, STREAM_ID)
        else:
            position = archive.extend_recording(0).append(payload_of((0, start, 0)))
            os.write(news, b"%d 0 %d 0 %d\n" % (ACKNOWLEDGED, start, position))
        os.kill(os.getpid(), 9)

    monkeypatch.setattr(archive_soak, "record_messages", work)
    result = Result()
    watched = Watched(str(tmp_path / "archive"), "written", result)
    with selectors.DefaultSelector() as selector:
        for _ in range(2):
            watched.worker.start(selector)
            watched.worker.end(selector, None)
            watched.check()
    assert (result.complaints, result.acknowledged) == ([], 1)


def test_the_command_line_says_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "1", "--seed", "7", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 kills, ")
    assert list(tmp_path.iterdir()) == []
