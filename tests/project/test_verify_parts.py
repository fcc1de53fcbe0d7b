"""A verification in parts finds what the whole one finds, each fault once."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive
from everlog.core.report import Report, VerifyPart
from everlog.core.verification import join, parts_to_repeat
from everlog.stores import open_store

SEGMENT, TERM = 65536 * 2, 65536


def in_parts(path: Path, split_bytes: int, **options: Any) -> Report:
    """Each part by a store that was opened anew, as another process does it."""
    with open_store(path, **options) as store:
        parts = pickle.loads(pickle.dumps(store.verify_parts(split_bytes)))
    found = checked(path, parts, options)
    return join(str(path), found[0][1].family, found, checked(path, parts_to_repeat(found), options))


def checked(path: Path, parts: list[VerifyPart], options: dict[str, Any]) -> list[tuple[VerifyPart, Report]]:
    found = []
    for part in parts:
        with open_store(path, **options) as store:
            found.append((part, store.verify_part(part)))
    return found


def check_same(whole: Report, joined: Report) -> None:
    assert sorted(map(repr, joined.faults)) == sorted(map(repr, whole.faults))
    assert replace(joined, faults=[]) == replace(whole, faults=[])


def test_the_parts_of_a_golden_store_find_what_the_whole_finds(golden: Any) -> None:
    with open_store(golden.path, **golden.options) as store:
        whole = store.verify()
    check_same(whole, in_parts(golden.path, 1, **golden.options))
    check_same(whole, in_parts(golden.path, 1 << 30, **golden.options))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """An archive with two recordings of several segments, messages of all lengths, one in several fragments."""
    path = tmp_path / "archive"
    lengths = random.Random(5)
    with archive.create(path, segment_length=SEGMENT) as store:
        for stream_id in (1, 2):
            with store.start_recording("aeron:ipc", stream_id, term_length=TERM, initial_term_id=7) as recorder:
                for number in range(700):
                    recorder.append(bytes([number % 251]) * lengths.choice((0, 10, 500, 3000)))
    return path


def test_a_recording_is_parted_by_its_segments_and_all_are_sound(recorded: Path) -> None:
    with open_store(recorded) as store:
        whole = store.verify()
        assert whole.faults == []
        assert whole.record_count == 1400
        segments = len([name for name in store.storage.names() if name.endswith(".rec")])
        assert len(store.verify_parts(1)) >= 1 + segments  # a part is at most a segment
    check_same(whole, in_parts(recorded, 1))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 60))])
def test_damage_anywhere_is_told_as_by_the_whole(recorded: Path, seed: int) -> None:
    """Bits, runs of zeros, cut and missing files; near the borders of segments more often than elsewhere."""
    chance = random.Random(seed)
    files = sorted(recorded.glob("*.rec"))
    for _ in range(chance.choice((1, 2, 5))):
        file = chance.choice(files)
        kind = chance.choice(("bytes", "bytes", "zeros", "zeros", "cut", "gone"))
        if not file.exists():
            continue
        if kind == "gone":
            file.unlink()
            continue
        data = bytearray(file.read_bytes())
        near = chance.choice((0, len(data), TERM)) + chance.randrange(-200, 200) * 32
        at = min(max(chance.choice((near, chance.randrange(max(len(data), 1)))), 0), max(len(data) - 1, 0))
        if kind == "cut":
            del data[at:]
        elif kind == "zeros":
            data[at : at + 4096] = bytes(len(data[at : at + 4096]))
        else:
            data[at : at + 8] = chance.randbytes(len(data[at : at + 8]))
        file.write_bytes(data)
    with open_store(recorded) as store:
        whole = store.verify()
    check_same(whole, in_parts(recorded, 1))
    check_same(whole, in_parts(recorded, SEGMENT * 2))


def test_a_family_whose_checks_can_not_be_parted_has_one_part(tmp_path: Path) -> None:
    from everlog.jlog import create

    create(tmp_path / "journal")
    with open_store(tmp_path / "journal") as store:
        (part,) = store.verify_parts(1)
        assert store.verify_part(part).to_dict() == store.verify().to_dict()
