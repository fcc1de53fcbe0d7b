"""``everlog export``."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everlog.testing.toy.store import ToyStore

NAMES = ["store", "family", "stream", "address", "timestamp", "crc32", "timestamp_ns", "length", "payload"]
NAMES += ["number", "topic"]


def test_parquet_has_every_column_and_record(everlog, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    result = everlog("export", toy, out)
    assert result.code == 1  # the damaged line
    assert result.stderr.splitlines()[-1] == f"everlog: wrote 4 records as parquet to {out}"
    table = pq.read_table(out)
    assert table.column_names == NAMES
    assert table["payload"].to_pylist() == [b"one", b"\xff\x00two", b"three\n", b""]
    assert table["timestamp_ns"].to_pylist() == [1_700_000_000_123_456_789, None, 1_700_000_001_000_000_000, 0]
    assert table.schema.field("timestamp").type == pa.timestamp("us", "UTC")


def test_arrow_files_hold_the_same(everlog, toy: Path, tmp_path: Path) -> None:
    everlog("export", toy, tmp_path / "a.parquet")
    everlog("export", toy, tmp_path / "a.arrow")
    with pa.ipc.open_file(tmp_path / "a.arrow") as reader:
        assert reader.read_all().equals(pq.read_table(tmp_path / "a.parquet"))


def test_jsonl_is_what_read_prints(everlog, toy: Path, tmp_path: Path) -> None:
    everlog("export", toy, tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == everlog("read", toy, "--json").stdout


def test_streams_ranges_and_columns_can_be_chosen(everlog, clean: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    everlog("export", clean, out, "--format", "jsonl", "--stream", "s", "--from", 11, "--to", 13, "--no-payload")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["address"] for row in rows] == ["11", "12"]
    assert "payload" not in rows[0]


def test_an_empty_store_gives_an_empty_table(everlog, clean: Path, tmp_path: Path) -> None:
    (clean / "s.toy").write_bytes(b"")
    assert everlog("export", clean, tmp_path / "x.parquet").code == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert (table.num_rows, table.column_names) == (0, NAMES)


def test_an_existing_file_is_only_replaced_with_force(everlog, clean: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    out.write_text("mine")
    result = everlog("export", clean, out)
    assert (result.code, out.read_text()) == (2, "mine")
    assert "--force replaces it" in result.stderr
    assert everlog("export", clean, out, "--force").code == 0
    assert len(out.read_text().splitlines()) == 5


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_pipe_is_no_file_to_replace(everlog, clean: Path, tmp_path: Path, force: list[str]) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for out in (pipe, link):
        result = everlog("export", clean, out, "--format", "jsonl", *force)
        assert (result.code, result.stderr.splitlines()[-1]) == (
            2,
            f"everlog: {out} is a device, a pipe or a socket; name a file",
        )
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(everlog, clean: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "elsewhere" / "real", tmp_path / "x.jsonl"
    real.parent.mkdir()
    real.write_text("mine")
    link.symlink_to("elsewhere/real")
    assert everlog("export", clean, link).code == 2
    assert real.read_text() == "mine"
    assert everlog("export", clean, link, "--force").code == 0
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 5


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_link_that_leads_nowhere_is_refused(everlog, clean: Path, tmp_path: Path, force: list[str]) -> None:
    link = tmp_path / "x.jsonl"
    link.symlink_to("gone")
    result = everlog("export", clean, link, *force)
    assert result.code == 2
    assert "is a dangling link" in result.stderr
    assert link.is_symlink()
    assert not (tmp_path / "gone").exists()


def test_a_link_into_a_store_is_no_way_to_write_there(everlog, clean: Path, tmp_path: Path) -> None:
    link = tmp_path / "x.jsonl"
    link.symlink_to(clean / "s.toy")
    before = (clean / "s.toy").read_bytes()
    assert "inside the store" in everlog("export", clean, link, "--force").stderr
    assert (clean / "s.toy").read_bytes() == before


def test_a_dash_is_no_file(everlog, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = everlog("export", clean, "-", "--format", "jsonl")
    assert result.code == 2
    assert "everlog read --json" in result.stderr
    assert not (tmp_path / "-").exists()


def test_a_stream_that_is_named_twice_comes_once(everlog, clean: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    assert everlog("export", clean, out, "--stream", "s", "--stream", "s").code == 0
    assert len(out.read_text().splitlines()) == 5


def test_nothing_is_written_into_a_store(everlog, clean: Path) -> None:
    result = everlog("export", clean, clean / "x.jsonl")
    assert result.code == 2
    assert [file.name for file in clean.iterdir()] == ["s.toy"]


def test_a_failure_leaves_no_half_file(everlog, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, *arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(ToyStore, "scan", fail)
    result = everlog("export", clean, out / "x.parquet")
    assert (result.code, result.stderr) == (2, "everlog: system: no space left on device\n")
    assert list(out.iterdir()) == []


def test_a_file_that_another_process_writes_is_left_alone(everlog, clean: Path, tmp_path: Path) -> None:
    others = tmp_path / f".x.jsonl.{os.getpid()}.part"
    others.write_text("theirs")
    assert everlog("export", clean, tmp_path / "x.jsonl").code == 0
    assert len((tmp_path / "x.jsonl").read_bytes().splitlines()) == 5
    assert others.read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.glob("*x.jsonl*")) == [others.name, "x.jsonl"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_gets_the_file_too(
    everlog, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*paths: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    assert everlog("export", clean, tmp_path / "x.jsonl").code == 0
    assert len((tmp_path / "x.jsonl").read_bytes().splitlines()) == 5
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_comes_meanwhile_is_not_replaced(
    everlog, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    out, link = tmp_path / "x.jsonl", os.link

    def late(source: str, target: str) -> None:
        out.write_text("theirs")
        if not has_links:
            raise PermissionError(errno.EPERM, "no links")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    result = everlog("export", clean, out)
    said = f"everlog: {out} already exists (--force replaces it)\n"
    assert (result.code, result.stderr) == (2, said)
    assert out.read_text() == "theirs"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
def test_a_store_whose_name_is_no_text_is_exported(everlog, clean: Path, tmp_path: Path, kind: str) -> None:
    store = tmp_path / os.fsdecode(b"st\xffre")
    clean.rename(store)
    out = tmp_path / f"x.{kind}"
    result = everlog("export", store, out)
    assert (result.code, result.stderr) == (0, f"everlog: wrote 5 records as {kind} to {out}\n")
    if kind == "parquet":
        assert set(pq.read_table(out)["store"].to_pylist()) == {f"{tmp_path}/st\\udcffre"}
