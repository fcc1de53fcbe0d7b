"""Which stores a live query follows: by other paths, behind links, below patterns, behind URLs; made anew, deleted."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

import everlog
from everlog import jlog
from everlog.aeron import archive
from everlog.errors import DataLost
from everlog.testing.made import channel as nats_channel
from tests.spark.test_live_reader import SMALL, TERM, Query

DELETED = 2
"""A recording's state in the catalog."""


def append(path: Path, *payloads: bytes, **options: int) -> Path:
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        jlog.create(path, **options)
    with jlog.Writer(path) as writer:
        writer.append_many(list(payloads))
    return path


def upload(path: Path, url: str) -> str:
    """As another process does: what this one's fsspec remembers does not change."""
    import fsspec

    files = fsspec.filesystem("memory")
    for file in (file for file in path.rglob("*") if file.is_file()):
        files.pipe_file(f"{url.removeprefix('memory:/')}/{file.relative_to(path)}", file.read_bytes())
    return url


def remove(url: str) -> None:
    import fsspec

    fsspec.filesystem("memory").rm(url.removeprefix("memory:/"), recursive=True)


def test_a_link_to_a_store_that_is_followed_is_not_another_store(tmp_path):
    path = append(tmp_path / "stores" / "journal", b"1")
    query = Query(tmp_path / "stores")
    assert query.step() == [b"1"]
    (tmp_path / "stores" / "current").symlink_to(path)  # its name comes first
    assert query.step() == []
    query.restart()
    append(path, b"2")
    assert query.step() == [b"2"]
    assert list(json.loads(query.logged[-1])["stores"]) == [str(path)]
    both = Query("", paths=json.dumps([str(tmp_path / "stores" / "current"), str(path)]))
    assert both.step() == [b"1", b"2"]


def test_with_available_now_a_store_that_is_found_by_another_name_is_read_to_its_end(tmp_path):
    path = append(tmp_path / "stores" / "journal", b"1")
    query = Query(tmp_path / "stores")
    assert query.step() == [b"1"]
    (tmp_path / "stores" / "current").symlink_to(path)
    append(path, b"2")
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.step() == [b"2"]


def test_a_folder_without_stores_that_a_pattern_matches_hides_no_other(tmp_path):
    append(tmp_path / "a", b"1")
    query = Query(tmp_path / "*")
    assert query.step() == [b"1"]
    (tmp_path / "lost+found").mkdir()
    append(tmp_path / "z", b"2")
    assert query.step() == [b"2"]


def test_deleted_recordings_are_followed_where_the_query_includes_them(tmp_path):
    with archive.create(tmp_path / "archive", **SMALL) as writing:
        for number in range(2):
            recorder = writing.start_recording("aeron:ipc", number, **TERM)
            recorder.append(b"%d" % number)
            recorder.stop()
    with everlog.open_store(tmp_path / "archive") as store:
        at = store.folder.catalog.entries[1].offset
    catalog = bytearray((tmp_path / "archive" / "archive.catalog").read_bytes())
    struct.pack_into("<i", catalog, at + 4, DELETED)
    (tmp_path / "archive" / "archive.catalog").write_bytes(catalog)
    assert Query(tmp_path / "archive").step() == [b"0"]
    assert Query(tmp_path / "archive", includeAll="true").step() == [b"0", b"1"]


def test_stores_behind_urls_are_followed_as_they_grow(tmp_path):
    path = append(tmp_path / "journal", b"1" * 3000, segment_bytes=4096)
    channels = nats_channel.make_store(tmp_path / "channels")
    first = nats_channel.Channel(channels, "first")
    first.append(b"1")
    with archive.create(tmp_path / "archive", **SMALL) as writing:
        recorder = writing.start_recording("aeron:ipc", 1, **TERM)
        recorder.append(b"1")
        queries = {}
        for name in ("journal", "channels", "archive"):
            queries[name] = Query(upload(tmp_path / name, f"memory://live/{name}"))
            assert queries[name].step() != []
        append(path, *[b"%d" % number + b"x" * 3000 for number in range(9)])  # new segments
        nats_channel.Channel(channels, "second").append(b"2")  # a new channel
        recorder.append_many([b"x" * 900] * 100)  # new segment files
        for name, count in {"journal": 9, "channels": 1, "archive": 100}.items():
            upload(tmp_path / name, f"memory://live/{name}")
            got = []
            while rows := queries[name].step():
                got += rows
            assert len(got) == count, name
    remove("memory://live")


def test_a_store_behind_a_url_that_is_gone_or_not_asked_for_any_more(tmp_path, caplog):
    one = upload(append(tmp_path / "one", b"1"), "memory://live/one")
    other = upload(append(tmp_path / "other", b"2"), "memory://live/other")
    query = Query("", paths=json.dumps([one, other]))
    assert query.step() == [b"1", b"2"]
    query.options["paths"] = json.dumps([other])
    query.restart()
    assert query.step() == []
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.step() == []
    remove(other)
    assert query.step() == []
    assert "no store" in caplog.text
    upload(append(tmp_path / "other", b"3"), other)
    assert query.step() == [b"3"]
    remove("memory://live")


def make_anew(path: Path, *payloads: bytes) -> None:
    shutil.rmtree(path)
    append(path, *payloads)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_journal_made_anew_is_read_from_its_beginning_after_a_warning(tmp_path, caplog, count):
    path = append(tmp_path / "journal", *[b"old"] * 3)
    query = Query(path)
    lenient = Query(path, failOnDataLoss="false")
    assert query.step() == lenient.step() == [b"old"] * 3
    make_anew(path, *[b"a longer one"] * count)
    with pytest.raises(DataLost, match="recreated"):
        query.step()
    assert lenient.step() == [b"a longer one"] * count
    append(path, b"more")
    assert lenient.step() == [b"more"]
    assert caplog.text.count("data loss") == 1


def test_a_journal_that_was_gone_and_came_back_shorter_is_read_from_its_beginning(tmp_path, caplog):
    path = append(tmp_path / "journal", *[b"old"] * 3)
    query = Query(path, failOnDataLoss="false")
    assert len(query.step()) == 3
    shutil.rmtree(path)
    assert query.step() == []
    append(path, b"new")
    assert query.step() == [b"new"]


def test_an_archive_made_anew_is_read_from_its_beginning_after_a_warning(tmp_path, caplog):
    def make(payload: bytes) -> None:
        with archive.create(tmp_path / "archive", **SMALL) as writing:
            writing.start_recording("aeron:ipc", 1, **TERM).append_many([payload] * 5)

    make(b"old")
    query = Query(tmp_path / "archive", failOnDataLoss="false")
    assert query.step() == [b"old"] * 5
    shutil.rmtree(tmp_path / "archive")
    make(b"new")
    assert query.step() == [b"new"] * 5
    assert caplog.text.count("a recreated stream under that name") == 1


def test_starting_offsets_that_were_purged_or_lie_behind_the_end_are_lost_data(tmp_path, caplog):
    path = append(tmp_path / "journal", *[b"%d" % number + b"x" * 2000 for number in range(9)], segment_bytes=4096)
    (path / "00000000").unlink()
    for address in ("00000000:00000002", "00000009:00000001"):
        offsets = json.dumps({str(path): {"journal": address}})
        with pytest.raises(DataLost, match=f"records from {address} on"):
            Query(path, startingOffsets=offsets).step()
    lenient = Query(path, startingOffsets=json.dumps({str(path): {"journal": "0:2"}}), failOnDataLoss="false")
    assert [row[:1] for row in lenient.step()] == [b"3", b"4", b"5", b"6", b"7", b"8"]
    begin = json.dumps({str(path): {"journal": "0:0"}})
    assert len(Query(path, startingOffsets=begin).step()) == 6
