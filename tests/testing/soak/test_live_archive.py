"""A short run of the soak: a live archive, its driver and its clients killed. ``make soak-archive-service`` is the long
one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from everlog.testing.soak.live_archive import Soak, main
from everlog.testing.soak.live_ledger import (
    ANSWER,
    COUNTER,
    NEW_RECORDING,
    REPLAYED,
    TERM_LENGTH,
    Ledger,
    Reading,
    end_of,
    payload_of,
    place_of,
)


@pytest.mark.long
def test_nothing_that_anybody_has_seen_is_lost_when_archive_driver_and_clients_are_killed(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    result = Soak(str(tmp_path), kills=3, seed=seed, waits=0, udp_port=24_902).run()
    assert result.complaints == [], f"seed {seed}"
    assert result.kills == {"archive": 3, "driver": 3, "client": 3}
    assert result.byte_count > 100_000
    assert all(result.seen[source] > 0 for source in ("counter", "event", "answer", "replay")), result


@pytest.mark.long
def test_the_soak_runs_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "0", "--seed", "2", str(tmp_path)]) == 0
    assert "kills: 0 of the archive" in capsys.readouterr().out


# The ledger, on which the soak depends


def test_a_message_follows_from_its_leg_and_its_position() -> None:
    payload = payload_of(3001, 64)
    assert place_of(payload) == (3001, 64)
    assert place_of(payload[:-1]) is None
    assert place_of(payload[:-1] + bytes([payload[-1] ^ 1])) is None
    assert place_of(b"no message") is None
    assert {len(payload_of(1, position)) > 1376 for position in range(0, 32_000, 32)} == {True, False}


def test_messages_end_where_frames_of_32_byte_headers_and_1408_bytes_at_most_end() -> None:
    assert end_of(0, 1) == 64
    assert end_of(64, 1376) == 64 + 1408
    assert end_of(0, 1377) == 1408 + 64
    assert end_of(0, 2 * 1376) == 2 * 1408


def read(reading: Reading, leg: int, position: int) -> str | None:
    payload = payload_of(leg, position)
    return reading.take(payload, end_of(position, len(payload)))


def test_a_reading_complains_of_damage_gaps_repetitions_and_legs_that_nobody_announced() -> None:
    ledger = Ledger()
    ledger.announce(1000, NEW_RECORDING, 0)
    reading = ledger.reading(7)
    assert read(reading, 1000, 0) is None
    second = reading.position
    assert read(reading, 1000, second) is None
    assert "comes after one" in str(read(reading, 1000, second))
    assert "nothing from" in str(read(reading, 1000, reading.position + 32))
    assert "damaged" in str(reading.take(b"rubbish", reading.position + 64))
    assert "not at" in str(reading.take(payload_of(1000, reading.position), reading.position + 8192))
    assert "goes on at" in str(read(reading, 2000, reading.position))
    ledger.announce(3000, 8, reading.position)
    assert "leg 3000 of recording 8" in str(read(reading, 3000, reading.position))
    ledger.announce(4000, 7, reading.position + 32)
    assert read(reading, 4000, reading.position + 32) is None
    assert "comes after leg 4000" in str(read(reading, 1000, reading.position))


def test_a_reading_passes_over_the_padding_at_the_end_of_a_term_only() -> None:
    ledger = Ledger(legs={1000: (7, 0)})
    reading = Reading(7, TERM_LENGTH - 64, ledger.legs, leg=1000)
    assert read(reading, 1000, TERM_LENGTH) is None
    reading = Reading(7, TERM_LENGTH - 16_384, ledger.legs, leg=1000)
    assert "nothing from" in str(read(reading, 1000, TERM_LENGTH))


def test_a_leg_begins_with_padding_if_its_first_message_does_not_fit_into_the_term() -> None:
    ledger = Ledger()
    ledger.announce(1000, NEW_RECORDING, 0)
    ledger.announce(3000, 7, TERM_LENGTH - 1472)
    reading = Reading(7, TERM_LENGTH - 1472, ledger.legs, leg=1000)
    assert read(reading, 3000, TERM_LENGTH) is None
    reading = Reading(7, TERM_LENGTH - 1472, ledger.legs, leg=1000)
    assert "goes on at" in str(read(reading, 3000, TERM_LENGTH - 64))
    ledger.announce(5000, 7, TERM_LENGTH - 16_384)
    reading = Reading(7, TERM_LENGTH - 16_384, ledger.legs, leg=1000)
    assert "goes on at" in str(read(reading, 5000, TERM_LENGTH))


def test_the_ledger_complains_of_recordings_that_end_before_what_was_seen() -> None:
    ledger = Ledger()
    ledger.see(0, 640, COUNTER)
    ledger.see(0, 320, REPLAYED)
    ledger.check_stop(0, 640)
    ledger.check_stop(0, 672)
    assert ledger.complaints == []
    ledger.check_stop(0, 608)
    ledger.announce(1000, 0, 608)
    assert ledger.complaints == [
        "recording 0 stops at 608, before 640",
        "recording 0 is extended at 608, before 640",
    ]


def test_the_ledger_complains_of_recordings_that_stop_elsewhere_than_was_told() -> None:
    ledger = Ledger()
    ledger.see_stop(0, 640)
    ledger.see(0, 640, ANSWER)
    ledger.check_stop(0, 704)
    assert ledger.complaints == ["recording 0 had stopped at 640, not at 704"]
    ledger.announce(1000, 0, 640)
    ledger.check_stop(0, 704)
    assert len(ledger.complaints) == 1
