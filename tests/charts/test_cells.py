"""What is drawn of statistics of any size."""

from __future__ import annotations

import json

from everlog.charts.cells import MAX_LABEL, cut, cut_holes, labels


def test_long_holes_make_pictures_of_their_own():
    hour = 3600
    assert cut_holes([(0, 10), (5, 20), (22, 30)]) == [(0, 30)]
    assert cut_holes([(0, hour), (9 * hour, 10 * hour)]) == [(0, hour), (9 * hour, 10 * hour)]
    assert cut_holes([(0, 0)]) == [(0, 0)]
    apart = [(n * 100, n * 100 + 1) for n in range(20)]
    assert cut_holes(apart) == [(0, 1901)], "each hole is small beside the whole"


def test_labels_tell_streams_apart():
    rows = [{"store": f"/data/{store}", "stream": "0"} for store in ("x/archive", "y/archive")]
    assert labels(rows) == {("/data/x/archive", "0"): "x/archive / 0", ("/data/y/archive", "0"): "y/archive / 0"}
    assert labels(rows[:1]) == {("/data/x/archive", "0"): "0"}
    long = [{"store": f"/{n}{'long' * 20}", "stream": "s" * 100} for n in "ab"]
    found = list(labels(long).values())
    assert len(set(found)) == 2
    assert all(len(text) <= MAX_LABEL + 4 for text in found)
    assert cut("", "s") == "s"
    assert json.dumps(found)
