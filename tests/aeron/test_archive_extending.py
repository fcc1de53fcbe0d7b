"""Going on with recordings whose channel says with which publication they began."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron import archive
from everlog.errors import UsageError

CHANNEL = "aeron:ipc?term-length=64k|session-id=-77|init-term-id=3|term-id=5|term-offset=4096"


def test_another_publication_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=1 << 17) as store:
        with store.start_recording(CHANNEL, 10) as recorder:
            assert recorder.append(bytes(32)) == 2 * 65536 + 4096 + 64
        with store.extend_recording(0, session_id=8) as recorder:
            assert recorder.append(bytes(32)) == 2 * 65536 + 4096 + 128
        details = store.recording(0).details
        assert (details["session_id"], details["original_channel"]) == (8, CHANNEL)
        assert (details["start_position"], details["stop_position"]) == (135168, 135296)


def test_a_channel_that_is_given_must_join_where_the_recording_stops(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=1 << 17) as store:
        with store.start_recording(CHANNEL, 10) as recorder:
            recorder.append(bytes(32))
        with pytest.raises(UsageError, match="position"):
            store.extend_recording(0, CHANNEL)
        there = CHANNEL.replace("4096", "4160").replace("-77", "9")
        with store.extend_recording(0, there) as recorder:
            recorder.append(bytes(32))
        assert store.recording(0).session_id == 9
