"""Spark over archives of all catalog versions at once: splits know how their files are named."""

from __future__ import annotations

import shutil

import pytest

import everlog

RELEASES = ("1.7.0", "1.9.3", "1.20.0", "1.22.1", "1.24.0", "1.32.0")


@pytest.mark.long
def test_archives_of_every_catalog_version_are_read_in_one_frame(spark, golden, tmp_path):
    expected = set()
    for release in RELEASES:
        folder = golden(f"aeron/archive-old-releases/{release}-stopped") / f"{release}-stopped"
        shutil.copytree(folder, tmp_path / release)
        with everlog.open_store(folder) as store:
            for info in store.streams():
                rows = store.read(info.name)
                expected |= {(release, info.name, r.fields["position"], bytes(r.payload)) for r in rows}
    frame = spark.read.format("everlog").option("splitBytes", "131072").load(str(tmp_path))
    found = frame.select("store", "stream", "position", "payload").collect()
    assert {(row[0].rsplit("/", 1)[-1], row[1], row[2], bytes(row[3])) for row in found} == expected
    assert len(found) == len(expected) == 1000 + 3 * 994 + 2 * 1117
