"""The how-to pages and the notebook do what they say: run on golden stores named as there."""

from __future__ import annotations

import os
import re
import shutil

import pytest

import everlog
import tests

ROOT = tests.ROOT


def _python(page, folder):
    """The page's Python, with ``folder`` for ``/data``."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").replace('"/data/', f'"{folder}/')
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


@pytest.fixture
def here(golden, tmp_path):
    """A working folder with stores called ``archive`` and ``journal``."""
    shutil.copytree(
        next(golden("aeron/archive-crash/crash-plain-recovered").rglob("archive.catalog")).parent, tmp_path / "archive"
    )
    shutil.copytree(next(golden("jlog/basic/log").rglob("metastore")).parent, tmp_path / "journal")
    return tmp_path


@pytest.mark.long
def test_an_archive_is_loaded_as_the_page_says(spark, here, capsys):
    exec(compile(_python("load-an-archive.md", here), "load-an-archive.md", "exec"), {"__name__": "page"})
    with everlog.open_store(here / "archive") as store:
        count = sum(1 for _ in store.read("1"))
    assert re.search(rf"^1 {count} ", capsys.readouterr().out, re.MULTILINE)
    assert "Payload sizes" in (here / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_journal_is_followed_into_parquet_as_the_page_says(spark, here):
    from everlog import jlog

    names: dict = {"__name__": "page"}
    exec(compile(_python("follow-a-journal.md", here), "follow-a-journal.md", "exec"), names)
    copied = spark.read.parquet(str(here / "copy/messages"))
    assert sorted((row.log, row.marker) for row in copied.select("log", "marker").collect()) == sorted(
        (log, marker) for log, count in ((0, 35), (1, 36), (2, 19)) for marker in range(1, count + 1)
    )
    with everlog.open_store(here / "journal") as store:
        behind = {one["name"]: one["lag_messages"] for one in store.info()["subscribers"]}
    assert behind["parquet"] == 0
    with jlog.Writer(str(here / "journal")) as writer:
        writer.append(b"one more")
    names["follow"](availableNow=True).awaitTermination()
    assert spark.read.parquet(str(here / "copy/messages")).count() == 91


@pytest.mark.long
def test_the_notebook_runs_and_shows_the_page(golden, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    for name in ("jlog/basic/log", "nats_streaming/broken/msgs_bad_crc_mid"):
        shutil.copytree(golden(name), tmp_path / name.replace("/", "-"))
    monkeypatch.setenv("EVERLOG_STORES", str(tmp_path))
    monkeypatch.setenv("PATH", f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(ROOT / "docs" / "notebooks" / "recordings.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "the file is kept without outputs"
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    shown = [
        "".join(out["data"].get("text/html", "") for out in cell.get("outputs", []) if "data" in out)
        for cell in notebook.cells
    ]
    tables = "\n".join(shown)
    assert "bad-crc" in tables
    assert re.search(r"jlog</td>\s*<td>1</td>\s*<td>90</td>\s*<td>9120</td>", tables)
    (page,) = (text for text in shown if '<div class="everlog">' in text)
    assert page.count("<svg") >= 6
    assert "basic" in page
