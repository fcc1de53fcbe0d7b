"""A live query's driver is killed and started again from its checkpoint: each record is in the output once.

Twenty kills are ``make soak-spark``, or ``EVERLOG_SPARK_KILLS=20`` here.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everlog.testing.soak.spark_live import check, message, number_of, soak

KILLS = int(os.environ.get("EVERLOG_SPARK_KILLS", "2"))


@pytest.mark.long
@pytest.mark.parametrize("sink", ["foreach", "parquet"] if KILLS >= 20 else ["foreach"])
def test_a_killed_query_goes_on_without_loss_or_doubles(tmp_path, sink):
    counts = soak(tmp_path, KILLS, sink, random.SystemRandom().randrange(1 << 32))
    assert set(counts) == {"journal", "0", "1", "orders", "events"}
    assert min(counts.values()) > 100


def output(folder: Path, *batches: list[bytes]) -> Path:
    for number, payloads in enumerate(batches):
        place = folder / "out" / f"batch={number}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"stream": ["s"] * len(payloads), "payload": payloads}), place / "part.parquet")
    return folder


@pytest.mark.parametrize(
    ("batches", "problem"),
    [
        ([[0, 1], [1, 2]], "1 twice, 0 missing"),
        ([[0], [2]], "0 twice, 1 missing"),
        ([[0, 1], [2, 3]], "1 never written"),
    ],
)
def test_the_check_sees_what_is_lost_or_double(tmp_path, batches, problem):
    folder = output(tmp_path, *([message(n) for n in batch] for batch in batches))
    with pytest.raises(AssertionError, match=problem):
        check(folder, Counter(s=3), "foreach", 0)
    check(output(tmp_path / "good", [message(n) for n in (0, 2)], [message(1)]), Counter(s=3), "foreach", 0)


def test_the_check_sees_a_damaged_message():
    assert number_of(message(1234)) == 1234
    with pytest.raises(ValueError, match="damaged"):
        number_of(message(1234)[:-1] + b"?")
