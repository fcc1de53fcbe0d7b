"""Files of an export, as a task writes them: without Spark."""

from __future__ import annotations

import json
import math

import pytest

from everlog.spark.pipelines.export_files import JsonRows, SummedFile
from everlog.spark.pipelines.export_reading import batches_of

pa = pytest.importorskip("pyarrow")


def test_numbers_that_json_lacks_are_texts_and_what_follows_is_read_back(tmp_path):
    place = tmp_path / "x.jsonl"
    file = SummedFile(str(place))
    numbers = [1.5, math.nan, math.inf, -math.inf, None]
    batch = pa.record_batch(
        {"number": pa.array(numbers), "small": pa.array(numbers, pa.float32()), "n": [0, 1, 2, 3, 4]}
    )
    rows = JsonRows(file, batch.schema)
    rows.write(batch)
    rows.close()
    file.close()

    def refuse(text):
        raise AssertionError(text)

    read = [json.loads(line, parse_constant=refuse) for line in place.read_text().splitlines()]
    for name in ("number", "small"):
        assert [row[name] for row in read] == [1.5, "NaN", "Infinity", "-Infinity", None]
    assert [part.column(0).to_pylist() for part in batches_of(str(place), "jsonl", ["n"])] == [[0, 1, 2, 3, 4]]
