"""Files of an export, as a task writes them: without Spark."""

from __future__ import annotations

import gc
import json
import math
import os

import pytest

from everlog.errors import WriteFailed
from everlog.pipelines.export.files import HourFiles, JsonRows, SummedFile
from everlog.pipelines.export.reading import batches_of

pa = pytest.importorskip("pyarrow")


def test_numbers_that_json_lacks_are_texts_and_what_follows_is_read_back(tmp_path):
    place = tmp_path / "x.jsonl"
    file = SummedFile(str(place))
    numbers = [1.5, math.nan, math.inf, -math.inf, None]
    batch = pa.RecordBatch.from_pydict(
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


class FullDisk:
    """A file that takes so many bytes."""

    def __init__(self, path, room):
        self.file, self.room = open(path, "xb"), room  # noqa: SIM115 - closed by close

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


def write_hours(files, batch):
    try:
        for hour in range(3):
            files.write(hour, batch, ("0", "19"))
        files.close()
    except BaseException:
        files.abandon()
        raise


@pytest.mark.long
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("room", [0, 10, 5000])
def test_a_disk_that_is_full_leaves_no_file_no_handle_and_no_word(tmp_path, monkeypatch, capfd, kind, room):
    opened = []

    def full(path, mode):
        opened.append(FullDisk(path, room))
        return opened[-1]

    monkeypatch.setattr("everlog.pipelines.export.files.open", full, raising=False)
    batch = pa.RecordBatch.from_pydict({"payload": [os.urandom(1000) for _ in range(20)]})
    files = HourFiles(str(tmp_path), "part", kind, batch.schema)
    with pytest.raises(WriteFailed, match="no space left"):
        write_hours(files, batch)
    del files
    gc.collect()
    assert opened
    assert all(one.file.closed for one in opened)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
